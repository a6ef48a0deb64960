# How Sphinx makes the book from the pages that tools/book prepares. The pages are CommonMark, as GitHub shows them: hence MyST.
project = "Cohort"
html_title = "Cohort"
extensions = ["myst_parser"]
myst_heading_anchors = 6             # links to any heading, by GitHub's names of them
suppress_warnings = ["myst.header"]  # a page that begins with a smaller heading is no fault
html_theme_path = ["."]
html_theme = "theme"                 # of this folder: light and dark, for narrow windows, too; loads nothing from elsewhere
html_copy_source = False             # the sources are in the repository
html_use_index = False               # the search finds words; there are no marked terms
highlight_language = "text"
smartquotes = False                  # quotes and dashes of commands stay what they are
