# `make package`: a Debian package of the program, below /usr; `make dist` makes the source tarball, which needs no CMake.
# Its dependencies are read off the program by dpkg-shlibdeps, so they carry the names of the distribution that it was built on, and it
# installs on that distribution only.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cohort)
set(CPACK_PACKAGE_CONTACT "The Cohort developers <cohort@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)  # cohort_VERSION_ARCHITECTURE.deb
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)         # mpirun
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openssh-client)   # mpirun starts ranks of other nodes by it, where there is no SLURM
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "slurm-client, python3-h5py, hdf5-tools")
include(CPack)
