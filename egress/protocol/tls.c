// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. Trusts the certificates of a file that root has named, and no host.
 * OpenSSL reads no configuration and loads no module here, so that it does what this file says and
 * works behind the system call filter. SSL_read(3), SSL_set1_host(3), SSL_CTX_set_verify(3).
 */
#include "egress/protocol/tls.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>

struct tls_trust {
	SSL_CTX *context;
};

struct tls {
	SSL *ssl;
	bool wants_write;
	unsigned long error;
	size_t taken;      /* bytes that the call which runs has read */
	unsigned messages; /* of the handshake, and of what may come after it */
};

const char *tls_system_certificates(void)
{
	/* Debian, Ubuntu, Arch; Fedora; Alpine. */
	static const char *const paths[] = {"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};

	struct stat attributes;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (stat(paths[i], &attributes) == 0)
			return paths[i];
	return NULL;
}

/*
 * The host chooses how keys are exchanged, and everybody waits while this process computes: with
 * finite fields, of which TLS 1.2 takes any that the host makes up, for a second. Elliptic curves
 * take a millisecond. The first list is for OpenSSL 3.5 and later.
 */
static bool bound_key_exchange(SSL_CTX *context)
{
#define CURVES "X25519:P-256:X448:P-521:P-384"
	return SSL_CTX_set_cipher_list(context, "DEFAULT:!kDHE") == 1 &&
	       (SSL_CTX_set1_groups_list(context, "*X25519MLKEM768:*" CURVES) == 1 ||
		       SSL_CTX_set1_groups_list(context, CURVES) == 1);
}

static bool set_up(SSL_CTX *context, const char *path)
{
	static const unsigned char http[] = "\x08http/1.1";

	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	/* 2: no RSA key of fewer than 2048 bits, no SHA-1. */
	SSL_CTX_set_security_level(context, 2);
	return bound_key_exchange(context) &&
	       SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_alpn_protos(context, http, sizeof(http) - 1) == 0 &&
	       SSL_CTX_load_verify_file(context, path) == 1;
}

int tls_trust_new(const char *path, struct tls_trust **ret)
{
	struct tls_trust *trust = calloc(1, sizeof(*trust));

	if (!trust || OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1) {
		free(trust);
		return -ENOMEM;
	}
	trust->context = SSL_CTX_new(TLS_client_method());
	if (!trust->context || !set_up(trust->context, path)) {
		tls_trust_free(trust);
		ERR_clear_error();
		return -EINVAL;
	}
	*ret = trust;
	return 0;
}

void tls_trust_free(struct tls_trust *trust)
{
	if (trust)
		SSL_CTX_free(trust->context);
	free(trust);
}

static bool name_host(SSL *ssl, const struct host *host)
{
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (host->kind != HOST_NAME)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host->text) == 1;
	return SSL_set1_host(ssl, host->text) == 1 &&
	       SSL_set_tlsext_host_name(ssl, host->text) == 1;
}

/*
 * OpenSSL reads on until there is data, and a host may send other things for as long as it likes
 * (HelloRequest, NewSessionTicket, KeyUpdate): to OpenSSL the socket is empty when a call has read
 * its share. BIO_set_callback_ex(3)
 */
static long on_transfer(BIO *bio, int what, const char *data, size_t len, int number,
	long long_number, int r, size_t *done)
{
	struct tls *tls = (struct tls *)(void *)BIO_get_callback_arg(bio);

	(void)data;
	(void)len;
	(void)number;
	(void)long_number;
	if (what == BIO_CB_READ && tls->taken >= LIMIT_EGRESS_TLS_BYTES) {
		BIO_set_retry_read(bio);
		return -1;
	}
	if (what == (BIO_CB_READ | BIO_CB_RETURN) && r > 0)
		tls->taken += *done;
	return r;
}

/* SSL_set_msg_callback(3) */
static void on_message(
	int is_sent, int version, int type, const void *data, size_t len, SSL *ssl, void *context)
{
	struct tls *tls = context;

	(void)version;
	(void)data;
	(void)len;
	(void)ssl;
	tls->messages += !is_sent && type == SSL3_RT_HANDSHAKE;
}

static void bound_reading(struct tls *tls)
{
	BIO *bio = SSL_get_rbio(tls->ssl);

	BIO_set_callback_ex(bio, on_transfer);
	BIO_set_callback_arg(bio, (char *)(void *)tls);
	SSL_set_msg_callback(tls->ssl, on_message);
	SSL_set_msg_callback_arg(tls->ssl, tls);
}

struct tls *tls_new(const struct tls_trust *trust, const struct host *host, int fd)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return NULL;
	tls->ssl = SSL_new(trust->context);
	if (!tls->ssl || !name_host(tls->ssl, host) || SSL_set_fd(tls->ssl, fd) != 1) {
		tls_free(tls);
		return NULL;
	}
	bound_reading(tls);
	SSL_set_connect_state(tls->ssl);
	return tls;
}

void tls_free(struct tls *tls)
{
	if (tls)
		SSL_free(tls->ssl);
	free(tls);
}

static bool is_flooded(const struct tls *tls)
{
	return tls->messages > LIMIT_EGRESS_TLS_MESSAGES;
}

/* Begins a call. Returns 0, or -EPROTO if the host has sent too much that is no data. */
static int begin_tls(struct tls *tls)
{
	ERR_clear_error();
	tls->taken = 0;
	return is_flooded(tls) ? -EPROTO : 0;
}

/* What a call that returned @r <= 0 means. */
static int outcome(struct tls *tls, int r)
{
	int error = SSL_get_error(tls->ssl, r);

	tls->wants_write = error == SSL_ERROR_WANT_WRITE;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (error == SSL_ERROR_ZERO_RETURN)
		return 0;
	tls->error = ERR_peek_last_error();
	ERR_clear_error();
	return -EPROTO;
}

int tls_shake(struct tls *tls)
{
	int r = begin_tls(tls);

	if (r < 0)
		return r;
	r = SSL_do_handshake(tls->ssl);
	if (r == 1)
		return 1;
	r = outcome(tls, r);
	return r == 0 ? -EPROTO : r;
}

ssize_t tls_read(struct tls *tls, void *buffer, size_t size)
{
	size_t n = 0;
	int r = begin_tls(tls);

	if (r < 0)
		return r;
	r = SSL_read_ex(tls->ssl, buffer, size, &n);
	return r == 1 ? (ssize_t)n : outcome(tls, r);
}

int tls_peek(struct tls *tls)
{
	size_t n = 0;
	char byte;
	int r = begin_tls(tls);

	if (r < 0)
		return r;
	r = SSL_peek_ex(tls->ssl, &byte, 1, &n);
	return r == 1 ? 1 : outcome(tls, r);
}

ssize_t tls_write(struct tls *tls, const void *data, size_t len)
{
	size_t n = 0;
	int r = begin_tls(tls);

	if (r < 0)
		return r;
	r = SSL_write_ex(tls->ssl, data, len, &n);
	if (r == 1)
		return (ssize_t)n;
	r = outcome(tls, r);
	return r == 0 ? -EPROTO : r;
}

void tls_close(struct tls *tls)
{
	if (begin_tls(tls) == 0)
		(void)SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

bool tls_wants_write(const struct tls *tls)
{
	return tls->wants_write;
}

bool tls_has_more(const struct tls *tls)
{
	return SSL_pending(tls->ssl) > 0;
}

void tls_failure(const struct tls *tls, char *ret, size_t size)
{
	long verified = SSL_get_verify_result(tls->ssl);
	const char *reason = tls->error ? ERR_reason_error_string(tls->error) : NULL;

	if (is_flooded(tls))
		snprintf(ret, size, "TLS: the host sends messages and no data");
	else if (verified != X509_V_OK)
		snprintf(ret, size, "certificate: %s", X509_verify_cert_error_string(verified));
	else
		snprintf(ret, size, "TLS: %s", reason ? reason : "the host ended the connection");
}
