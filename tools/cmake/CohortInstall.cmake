# What `cmake --install` copies below the prefix. The result can be moved: no file in it holds the prefix or looks into the source tree.
#   bin/cohort                                 the program
#   share/cohort/inputs, share/cohort/jobs     run files, job templates and site profiles
#   share/cohort/modulefiles/lmod, .../tcl     modulefiles: `module use` one of the two
#   share/doc/cohort                           README, the pages in docs, changelog, licence
include(GNUInstallDirs)
include(CohortModulefiles)

set(COHORT_MODULE_REQUIRES "" CACHE STRING
    "Modules that the installed modulefiles load first, those that Cohort was built with, as in gcc/12.2;openmpi/4.1.4")

# The modulefiles find the program from where they lie.
if(NOT CMAKE_INSTALL_BINDIR STREQUAL "bin" OR NOT CMAKE_INSTALL_DATADIR STREQUAL "share")
  message(FATAL_ERROR "CMAKE_INSTALL_BINDIR=${CMAKE_INSTALL_BINDIR}, CMAKE_INSTALL_DATADIR=${CMAKE_INSTALL_DATADIR}: the modulefiles in "
                      "share/cohort/modulefiles look for bin/cohort beside share; leave the two at bin and share")
endif()

install(TARGETS cohort RUNTIME DESTINATION bin)
install(DIRECTORY inputs jobs DESTINATION share/cohort USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY src/labs/ DESTINATION share/cohort/labs FILES_MATCHING PATTERN "*/handout.md" PATTERN "*/hints.md" PATTERN "*/questions.md" PATTERN "*/*.svg" PATTERN "*/exercise.cpp" PATTERN "*/solution.cpp"
        PATTERN "include/cohort/*.hpp" PATTERN "wrong" EXCLUDE PATTERN "grading" EXCLUDE PATTERN "workplace" EXCLUDE PATTERN "command" EXCLUDE PATTERN "use" EXCLUDE)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION share/doc/cohort)
install(DIRECTORY docs DESTINATION share/doc/cohort)
cohort_configure_modulefiles(${PROJECT_SOURCE_DIR}/modules/installed ${PROJECT_BINARY_DIR}/modules ${PROJECT_VERSION}
                             "${COHORT_MODULE_REQUIRES}")
install(FILES ${PROJECT_BINARY_DIR}/modules/cohort.lua DESTINATION share/cohort/modulefiles/lmod/cohort RENAME ${PROJECT_VERSION}.lua)
install(FILES ${PROJECT_BINARY_DIR}/modules/cohort.tcl DESTINATION share/cohort/modulefiles/tcl/cohort RENAME ${PROJECT_VERSION})
