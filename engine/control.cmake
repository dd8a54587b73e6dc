# The control path: messages, handles and sockets. Knows nothing of links, channels or verbs.
add_library(mesh_control STATIC
  handle.cc
  messages.cc
)
target_link_libraries(mesh_control PUBLIC mesh_base)
