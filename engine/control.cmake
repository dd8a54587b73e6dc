# The control path: messages, handles and sockets. Knows nothing of links, channels or verbs.
add_library(mesh_control STATIC
  control/control_connection.cc
  control/control_listener.cc
  control/control_plane.cc
  control/unauthenticated.cc
  control/conversation.cc
  control/handle.cc
  control/handle_addresses.cc
  control/frames.cc
)
target_compile_options(mesh_control PRIVATE ${MESH_SECTIONS} ${MESH_COLD})
target_link_libraries(mesh_control PUBLIC mesh_base)
