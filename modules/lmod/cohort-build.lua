-- Sets up the build of Cohort on a site that has its compilers and libraries as modules, for Lmod. From the root of the source tree:
--   export COHORT_BUILD_MODULES="gcc/12.2 openmpi/4.1.4 hdf5-mpi/1.14 openblas cuda/12.6 nccl kokkos/4.6"     as your site calls them
--   module use modules/lmod && module load cohort-build && make
-- It loads those modules, hands the prefixes that they set to CMake under the names that CMake looks for, and switches off the
-- installing of Debian packages by make. Variables that you have set yourself stay as they are.
-- Last tested: 2026-11-28, Lmod 8.6.19 (Debian 12) with Debian's compilers, Open MPI 4.1.4 and HDF5 1.10.8, and with modules made up
-- for the test in the place of a site's.

help([[
Sets up the build of Cohort. Name your site's modules of a C++20 compiler, CMake, Open MPI, parallel HDF5, OpenBLAS, fmt, toml++, CLI11 and
nlohmann-json in COHORT_BUILD_MODULES, separated by blanks, before you load this; for GPUs those of CUDA, NCCL and a Kokkos with
CUDA too.
]])
whatis("Name: Cohort, build")
whatis("Description: sets up the build of Cohort: compilers, MPI, HDF5, CUDA, Kokkos")

for name in (os.getenv("COHORT_BUILD_MODULES") or ""):gmatch("%S+") do
  depends_on(name)
end

-- What CMake or make reads, and where its value may come from: the variables that modules made by Spack, by EasyBuild (EBROOT...) and by
-- vendors set, and a value of our own in their absence. cc and c++, which CMake would try first, are often the system's old ones.
local translations = {
  {"CC", {}, "gcc"},
  {"CXX", {}, "g++"},
  {"INSTALL", {}, "no"},
  {"Kokkos_ROOT", {"KOKKOS_ROOT", "EBROOTKOKKOS", "KOKKOS_PATH"}},
  {"HDF5_ROOT", {"HDF5_DIR", "EBROOTHDF5"}},
  {"CBLAS_ROOT", {"OPENBLAS_ROOT", "EBROOTOPENBLAS"}},
  {"OneDNN_ROOT", {"ONEDNN_ROOT", "DNNLROOT", "EBROOTONEDNN"}},
  {"CUDAToolkit_ROOT", {"CUDA_HOME", "CUDA_ROOT", "EBROOTCUDA"}},
  {"NCCL_ROOT", {"NCCL_HOME", "EBROOTNCCL"}},
}

-- COHORT_BUILD_SET remembers which ones are ours, so that unloading leaves yours alone.
if mode() == "unload" then
  for name in (os.getenv("COHORT_BUILD_SET") or ""):gmatch("[^:]+") do
    setenv(name, "")
  end
  setenv("COHORT_BUILD_SET", "")
else
  local set = {}
  for _, translation in ipairs(translations) do
    local name, sources, value = translation[1], translation[2], translation[3]
    for _, source in ipairs(sources) do
      value = value or os.getenv(source)
    end
    if value and not os.getenv(name) then
      setenv(name, value)
      set[#set + 1] = name
    end
  end
  setenv("COHORT_BUILD_SET", table.concat(set, ":"))
end

local function on_path(program)
  for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    if isFile(pathJoin(folder, program)) then return true end
  end
  return false
end
if mode() == "load" then
  for _, program in ipairs({"cmake", "ninja", "mpicc", "mpirun"}) do
    if not on_path(program) then
      LmodMessage("cohort-build: there is no " .. program .. " on the PATH. Name the module that has it in COHORT_BUILD_MODULES.")
    end
  end
end
