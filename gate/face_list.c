// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate: all faces, in the order in which they are asked. */
#include "gate/face.h"

#include "common/cleanup.h"

extern const struct gate_face face_e2b_control, face_e2b_data, face_gate, face_mcp, face_native,
	face_ports_header, face_ports_host, face_ports_path;

const struct gate_face *const gate_faces[] = {&face_e2b_data, &face_ports_host, &face_ports_header,
	&face_ports_path, &face_gate, &face_native, &face_mcp, &face_e2b_control};
const size_t gate_faces_count = ARRAY_SIZE(gate_faces);
