/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/channel.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers file calls from @channel until cloisterd closes it. Returns 0 then, or -errno if the
 * channel is unusable.
 */
int files_serve(struct channel *channel, const struct root *root);
