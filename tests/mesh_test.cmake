# Everything the thread sanitizer's run needs, and nothing else.
add_custom_target(mesh_threads_tests)

# mesh_test(NAME sources... LIBS libraries... [LABELS labels...] [TIMEOUT seconds]): one GoogleTest binary, one ctest entry
# per binary so that ctest's own overhead stays small.
function(mesh_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # A profile of this machine's user must not decide a test.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "NCCL_MESH_PROFILE=none")
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(mesh_threads_tests ${name})
  endif()
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
