# The parts that look between hosts: the map of the cables, and what they carry.
target_sources(mesh_doctor_parts PRIVATE
  between.cc
  cable_finder.cc
  cabling.cc
  card_calls.cc
  expected_map.cc
  expected_rate.cc
  flood.cc
  handshake_network.cc
  judge_cables.cc
  judge_map.cc
  map_drawing.cc
  map_svg.cc
  measure_cables.cc
  own_rails.cc
  probe.cc
  rank_order.cc
  shared_subnets.cc
  ${PROJECT_SOURCE_DIR}/plugin/provider.cc
)
target_link_libraries(mesh_doctor_parts PUBLIC mesh_engine mesh_collectives mesh_soft mesh_verbs)
