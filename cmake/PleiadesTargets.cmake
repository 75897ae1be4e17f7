# Helpers that declare the project's targets: a room, a test, a benchmark, a fuzzer.

# Flags of every target of ours.
add_library(ple_flags INTERFACE)
target_compile_features(ple_flags INTERFACE cxx_std_20)
target_compile_options(ple_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;-Wconversion;-Wshadow;-fno-math-errno;-ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${PLE_WARNINGS_AS_ERRORS}>>:-Werror>
  # GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wthread-safety;-Wno-sign-conversion>)
if(PLE_ENABLE_CUDA)
  # By flag, because CMake 3.25 does not know the dialects of nvcc 13.
  target_compile_options(ple_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;SHELL:-Xptxas -warn-spills>")
endif()
if(PLE_ASSERTIONS)
  target_compile_definitions(ple_flags INTERFACE PLE_ASSERTIONS)
endif()

# What tools/check builds where it does not build everything.
add_custom_target(ple_rooms)              # the library
add_custom_target(ple_tests)              # tests that need no GPU
add_custom_target(ple_concurrency_tests)  # label concurrency
add_custom_target(ple_soak_tests)         # label soak
add_custom_target(ple_gpu_tests)          # label gpu
add_custom_target(ple_fuzzers)

# ple_add_room(NAME SOURCES ... DEPENDS ...): the static library ple_NAME of src/NAME.
function(ple_add_room name)
  cmake_parse_arguments(room "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(ple_${name} STATIC ${room_SOURCES})
  target_include_directories(ple_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(ple_${name} PRIVATE ple_flags PUBLIC ${room_DEPENDS})
  set_target_properties(ple_${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINKER_LANGUAGE CXX)
  add_dependencies(ple_rooms ple_${name})
endfunction()

# ple_add_test(NAME SOURCES ... DEPENDS ... LABELS ...): a GoogleTest executable, or with a main of
# its own. Labels: cpu (the default) or gpu; also concurrency where threads meet (these run under
# tsan), and soak where PLE_SOAK_SECONDS says how long. Exit code 77 is a skip and is reported as one. Tests run in the root of the
# tree, so that they can be carried to another machine and find PLE_TEST_DATA there.
function(ple_add_test name)
  cmake_parse_arguments(test "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT test_LABELS)
    set(test_LABELS cpu)
  endif()
  add_executable(${name} ${test_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ple_flags ${test_DEPENDS} ple_test_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE PLE_TEST_DATA="tests/data")
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" SKIP_RETURN_CODE 77)
  if("gpu" IN_LIST test_LABELS)
    add_dependencies(ple_gpu_tests ${name})
  else()
    add_dependencies(ple_tests ${name})
  endif()
  foreach(label concurrency soak)
    if(label IN_LIST test_LABELS)
      add_dependencies(ple_${label}_tests ${name})
    endif()
  endforeach()
endfunction()

# ple_add_bench(NAME SOURCES ... DEPENDS ...): a benchmark; CTest runs one tiny iteration of it.
function(ple_add_bench name)
  cmake_parse_arguments(bench "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${bench_SOURCES})
  target_link_libraries(${name} PRIVATE ple_flags ${bench_DEPENDS})
  add_test(NAME ${name}_smoke COMMAND ${name} --smoke)
  set_tests_properties(${name}_smoke PROPERTIES LABELS "bench")
endfunction()

# ple_add_fuzzer(NAME SOURCES ... DEPENDS ...): a libFuzzer target named *_fuzzer. In the fuzz preset
# it is a fuzzer; elsewhere it is a test that replays the seeds in fuzz/corpus/NAME.
function(ple_add_fuzzer name)
  cmake_parse_arguments(fuzzer "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${fuzzer_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ple_flags ${fuzzer_DEPENDS})
  if(PLE_BUILD_FUZZERS)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(ple_fuzzers ${name})
    return()
  endif()
  target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/fuzz/replay_main.cpp")
  add_test(NAME ${name}_replay COMMAND ${name} "${PROJECT_SOURCE_DIR}/fuzz/corpus/${name}")
  set_tests_properties(${name}_replay PROPERTIES LABELS "cpu;fuzz")
  add_dependencies(ple_tests ${name})
endfunction()
