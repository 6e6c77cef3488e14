// SPDX-License-Identifier: Apache-2.0
// Names below the gate's domain are this host, for programs of Node that load this file first.
const dns = require('node:dns')
const domain = process.env.CLOISTER_GATE_DOMAIN
const lookup = dns.lookup
dns.lookup = function (host, options, done) {
  if (typeof options === 'function') {
    done = options
    options = {}
  }
  if (host !== domain && !host.endsWith(`.${domain}`)) return lookup.call(dns, host, options, done)
  const all = options && options.all
  process.nextTick(() => (all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)))
}
