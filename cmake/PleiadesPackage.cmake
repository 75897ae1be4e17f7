# The one shared library, what it exports, and how it is installed.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# ple_add_public_library(SOURCES ... HEADERS ... DEPENDS ...): libpleiades.so, the target ple::ple.
# Only what src/capi/pleiades.map names leaves it; the rooms are linked in.
function(ple_add_public_library)
  cmake_parse_arguments(library "" "" "SOURCES;HEADERS;DEPENDS" ${ARGN})
  set(map "${PROJECT_SOURCE_DIR}/src/capi/pleiades.map")
  set(include_dir "${PROJECT_SOURCE_DIR}/include")

  add_library(pleiades SHARED ${library_SOURCES})
  add_library(ple::ple ALIAS pleiades)
  target_sources(pleiades PUBLIC FILE_SET HEADERS BASE_DIRS "${include_dir}" FILES ${library_HEADERS})
  target_compile_features(pleiades INTERFACE cxx_std_20)
  target_link_libraries(pleiades PRIVATE ple_flags ${library_DEPENDS})
  target_link_options(pleiades PRIVATE "LINKER:--version-script=${map}")
  set_target_properties(pleiades PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS "${map}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME ple
    VERIFY_INTERFACE_HEADER_SETS ON)
  add_dependencies(ple_rooms pleiades)

  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pleiades")
  install(TARGETS pleiades EXPORT pleiades_targets FILE_SET HEADERS)
  install(EXPORT pleiades_targets NAMESPACE ple:: DESTINATION ${package_dir} FILE pleiadesConfig.cmake)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/pleiadesConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/pleiadesConfigVersion.cmake" DESTINATION ${package_dir})
  file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/pleiades.pc.in" "${PROJECT_BINARY_DIR}/pleiades.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/pleiades.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
