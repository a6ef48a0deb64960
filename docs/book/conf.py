# How Sphinx makes the book from the pages that tools/book prepares. The pages are CommonMark, as GitHub shows them: hence MyST.
project = "Cohort"
html_title = "Cohort"
extensions = ["myst_parser"]
myst_heading_anchors = 6            # links to any heading, by GitHub's names of them
suppress_warnings = ["myst.header"]  # a page that begins with a smaller heading is no fault
html_theme = "furo"                 # light and dark, for narrow windows, too; fonts are the system's
html_static_path = ["book.css"]
html_css_files = ["book.css"]
html_copy_source = False            # the sources are in the repository
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
highlight_language = "text"
smartquotes = False                 # quotes and dashes of commands stay what they are
