/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/channel.h"
#include "worker/files/root_open.h"

/** Answers file calls from @channel until cloisterd hangs up: 0 then, or -errno when the channel is
 * unusable. */
int files_serve(struct channel *channel, const struct root *root);
