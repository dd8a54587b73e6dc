# Everything the thread sanitizer's run needs, and nothing else; and everything but the tests of
# tools.
add_custom_target(mesh_threads_tests)
add_custom_target(mesh_product_tests)

# mesh_test(NAME sources... LIBS libraries... [LABELS labels...] [TIMEOUT seconds]): one GoogleTest
# binary, one ctest entry per binary so that ctest's own overhead stays small. After
# set(MESH_TESTS_OF_TOOLS ON) they are tests of the tools beside the product, which a brief run
# leaves out under sanitizers.
function(mesh_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)  # ten times what the longest takes: only what hangs is ended by the clock
  endif()
  # A profile of this machine's user must not decide a test.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT
    "NCCL_MESH_PROFILE=none")
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(mesh_threads_tests ${name})
  endif()
  if(MESH_TESTS_OF_TOOLS)
    list(APPEND ARG_LABELS tools)
  else()
    add_dependencies(mesh_product_tests ${name})
  endif()
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
