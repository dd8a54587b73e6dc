# The control path: messages, handles and sockets. Knows nothing of links, channels or verbs.
add_library(mesh_control STATIC
  control_connection.cc
  control_listener.cc
  control_plane.cc
  control_strangers.cc
  conversation.cc
  handle.cc
  messages.cc
  socket_watcher.cc
)
target_link_libraries(mesh_control PUBLIC mesh_base)
