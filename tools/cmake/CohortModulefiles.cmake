# cohort_configure_modulefiles(SOURCES FOLDER VERSION REQUIRES)
#   Writes FOLDER/cohort.lua and FOLDER/cohort.tcl from the templates in SOURCES. REQUIRES: names of modules that they load first.
function(cohort_configure_modulefiles sources folder version requires)
  set(PROJECT_VERSION ${version})
  list(JOIN requires " " module_requires)  # a list of Tcl
  list(TRANSFORM requires REPLACE "(.+)" "\"\\1\"")
  list(JOIN requires ", " quoted_requires)  # a table of Lua
  configure_file(${sources}/cohort.lua.in ${folder}/cohort.lua @ONLY)
  configure_file(${sources}/cohort.tcl.in ${folder}/cohort.tcl @ONLY)
endfunction()
