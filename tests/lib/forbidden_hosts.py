# SPDX-License-Identifier: Apache-2.0
"""Hosts that a tenant may not reach, in every spelling: for tests of cloister-egress alone and from a command."""

# The tenant's rules, and what its DNS server says.
RULES = """egress_private = 127.0.0.0/8
egress_connect_rate = 0
egress_allow = **.open.test:* *.sub.test:* tls.test:443 tcp:plain.test:443 web.test
egress_allow = meta.test:* ten.test:* mixed.test:* rebind.test:* v6.test:* @npm
egress_deny = denied.open.test"""
ADDRESSES = dict.fromkeys(("open.test", "a.open.test", "denied.open.test", "a.sub.test", "tls.test", "plain.test"), ["127.0.0.1"]) | {
    "meta.test": ["169.254.169.254"], "ten.test": ["10.1.2.3"], "v6.test": ["::1", "fd00:ec2::254"],
    "mixed.test": ["169.254.169.254", "127.0.0.1", "64:ff9b::a9fe:a9fe"]}

# Each is no host that a rule allows, however it is spelt: the host that is logged, and the reason.
FORBIDDEN = [
    ("example.com", "example.com", "not_allowed"),
    ("EXAMPLE.com.", "example.com", "not_allowed"),
    ("sub.test", "sub.test", "not_allowed"),
    ("SUB.TEST.", "sub.test", "not_allowed"),
    ("evilsub.test", "evilsub.test", "not_allowed"),
    ("evilopen.test", "evilopen.test", "not_allowed"),
    ("open.test.evil.example", "open.test.evil.example", "not_allowed"),
    ("denied.open.test", "denied.open.test", "denied"),
    ("DENIED.open.test.", "denied.open.test", "denied"),
    ("127.0.0.1", "127.0.0.1", "not_allowed"),
    ("127.0.0.1.", "127.0.0.1", "not_allowed"),
    ("127.1", "127.0.0.1", "not_allowed"),
    ("2130706433", "127.0.0.1", "not_allowed"),
    ("0x7f000001", "127.0.0.1", "not_allowed"),
    ("0X7F.1", "127.0.0.1", "not_allowed"),
    ("017700000001", "127.0.0.1", "not_allowed"),
    ("0", "0.0.0.0", "not_allowed"),
    ("169.254.169.254", "169.254.169.254", "not_allowed"),
    ("169.254.43518", "169.254.169.254", "not_allowed"),
    ("2852039166", "169.254.169.254", "not_allowed"),
    ("0xA9FEA9FE", "169.254.169.254", "not_allowed"),
    ("0xa9.0xfe.0xa9.0xfe", "169.254.169.254", "not_allowed"),
    ("0251.0376.0251.0376", "169.254.169.254", "not_allowed"),
    ("025177524776", "169.254.169.254", "not_allowed"),
    ("169.254.169.254.", "169.254.169.254", "not_allowed"),
    ("[::1]", "::1", "not_allowed"),
    ("[::ffff:169.254.169.254]", "::ffff:169.254.169.254", "not_allowed"),
    ("[::FFFF:A9FE:A9FE]", "::ffff:169.254.169.254", "not_allowed"),
    ("[0:0:0:0:0:ffff:a9fe:a9fe]", "::ffff:169.254.169.254", "not_allowed"),
    ("[64:ff9b::a9fe:a9fe]", "64:ff9b::a9fe:a9fe", "not_allowed"),
    ("[64:ff9b::169.254.169.254]", "64:ff9b::a9fe:a9fe", "not_allowed"),
    ("[2002:a9fe:a9fe::1]", "2002:a9fe:a9fe::1", "not_allowed"),
    ("[fd00:ec2::254]", "fd00:ec2::254", "not_allowed"),
    ("[FD00:0EC2:0::0254]", "fd00:ec2::254", "not_allowed"),
    ("[fe80::1]", "fe80::1", "not_allowed"),
    ("169.254.169.254.nip.io", "169.254.169.254.nip.io", "not_allowed"),
    ("metadata.google.internal", "metadata.google.internal", "not_allowed"),
    ("localhost", "localhost", "not_allowed"),
    ("meta.test", "meta.test", "private_address"),
    ("META.TEST.", "meta.test", "private_address"),
    ("ten.test", "ten.test", "private_address"),
    ("v6.test", "v6.test", "private_address"),
    ("missing.open.test", "missing.open.test", "dns_failed"),
    # What is no host at all: the log has it as it was written.
    ("a%2eopen.test", "a%2eopen.test", "bad_request"),
    ("%6fpen.test", "%6fpen.test", "bad_request"),
    ("open..test", "open..test", "bad_request"),
    (".open.test", ".open.test", "bad_request"),
    ("open.test..", "open.test..", "bad_request"),
    ("*.open.test", "*.open.test", "bad_request"),
    ("user@open.test", "user@open.test", "bad_request"),
    ("open.test\\@b", "open.test\\@b", "bad_request"),
    ("0x1g", "0x1g", "bad_request"),
    ("256.256.256.256", "256.256.256.256", "bad_request"),
    ("1.2.3.4.5", "1.2.3.4.5", "bad_request"),
    ("08.0.0.1", "08.0.0.1", "bad_request"),
    ("4294967296", "4294967296", "bad_request"),
    ("a" * 64 + ".open.test", "a" * 64 + ".open.test", "bad_request"),
    ("[::1%25lo]", "[::1%25lo]", "bad_request"),
    ("[::1", "[::1", "bad_request"),
    ("[open.test]", "[open.test]", "bad_request"),
    ("\u043epen.test", "??pen.test", "bad_request"),
    ("<a>`b\"'.test", "?a??b??.test", "bad_request"),
]
