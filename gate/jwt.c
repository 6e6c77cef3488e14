// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The signature is verified before a claim is read. The algorithm is the
 * key's: a token can only name it, "none" and HMAC are not in the table, and no key that a token
 * carries or points to is used.
 */
#include "gate/jwt.h"

#include "common/cleanup.h"
#include "common/keys/gate_key.h"
#include "json/json_read.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <json-c/json_object.h>
#include <math.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <strings.h>

#define ES256_HALF 32  /* bytes of each number of a signature */
#define RSA_LEAST  256 /* bytes of a modulus */
#define RSA_MOST   1024

struct algorithm {
	const char *name;      /* "alg" */
	const char *kty, *crv; /* of the JWK; NULL: it has no curve */
	gnutls_sign_algorithm_t sign;
	size_t signature; /* bytes; 0: as many as the key's modulus */
};

/* Ed25519 is the name of RFC 9864 for what RFC 8037 calls EdDSA. */
static const struct algorithm algorithms[] = {
	{"RS256", "RSA", NULL, GNUTLS_SIGN_RSA_SHA256, 0},
	{"PS256", "RSA", NULL, GNUTLS_SIGN_RSA_PSS_RSAE_SHA256, 0},
	{"ES256", "EC", "P-256", GNUTLS_SIGN_ECDSA_SHA256, 64},
	{"EdDSA", "OKP", "Ed25519", GNUTLS_SIGN_EDDSA_ED25519, 64},
	{"Ed25519", "OKP", "Ed25519", GNUTLS_SIGN_EDDSA_ED25519, 64},
};

struct jwt_key {
	gnutls_pubkey_t public;
	const char *kty;         /* an algorithm's */
	const char *alg;         /* the only algorithm's; NULL: any of its kind */
	struct json_object *kid; /* a string; NULL: none */
	size_t modulus;          /* bytes */
	uint8_t id[JWT_KEY_ID_BYTES];
};

struct jwt_keys {
	size_t count;
	struct jwt_key items[LIMIT_GATE_JWT_KEYS];
};

/* Bytes from base64url. */
struct bytes {
	uint8_t data[LIMIT_GATE_JWT_BYTES];
	size_t len;
};

/*
 * Decodes base64url without padding (RFC 7515). nettle passes over white space and takes padding,
 * so that one token would have many texts.
 */
static bool decode_base64url(struct text text, struct bytes *ret)
{
	struct base64_decode_ctx context;
	size_t more = 0;

	if (text.len % 4 == 1 || BASE64_DECODE_LENGTH(text.len) > sizeof(ret->data))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
			c != '-' && c != '_')
			return false;
	}
	base64url_decode_init(&context);
	ret->len = sizeof(ret->data);
	if (!base64_decode_update(&context, &ret->len, ret->data, text.len, text.data))
		return false;
	for (size_t pad = (4 - text.len % 4) % 4; pad > 0; pad--)
		if (!base64_decode_update(&context, &more, ret->data + ret->len, 1, "="))
			return false;
	return base64_decode_final(&context) && more == 0;
}

/* Reads an object; NULL: it is none. */
static struct json_object *read_json_object(struct text text)
{
	struct json_bounds bounds = json_request_bounds(text.len);
	struct json_object *object = NULL;
	struct json_report report;

	if (json_read(text, &bounds, &object, &report) == 0 &&
		json_object_is_type(object, json_type_object))
		return object;
	json_object_put(object);
	return NULL;
}

static struct json_object *decode_json_object(struct text text)
{
	_cleanup_free_ struct bytes *bytes = malloc(sizeof(*bytes));

	return bytes && decode_base64url(text, bytes)
		       ? read_json_object((struct text){(const char *)bytes->data, bytes->len})
		       : NULL;
}

static struct text json_text_of(struct json_object *value)
{
	if (!json_object_is_type(value, json_type_string))
		return (struct text){NULL, 0};
	return (struct text){
		json_object_get_string(value), (size_t)json_object_get_string_len(value)};
}

/* A member that is a string, or an empty text. */
static struct text text_member(struct json_object *object, const char *name)
{
	return json_text_of(json_object_object_get(object, name));
}

static bool has_member(struct json_object *object, const char *name)
{
	return json_object_object_get_ex(object, name, NULL);
}

static bool text_is(struct text text, const char *wanted)
{
	return text_equal(text, text_from(wanted));
}

/* Keys */

static bool decode_jwk_member(struct json_object *jwk, const char *name, struct bytes *ret)
{
	return decode_base64url(text_member(jwk, name), ret) && ret->len > 0;
}

static gnutls_datum_t datum_of(struct bytes *bytes)
{
	return (gnutls_datum_t){bytes->data, (unsigned)bytes->len};
}

/* The identity of a key is that of its numbers (and not that of RFC 7638, which nobody needs). */
static void identify_jwk(struct jwt_key *key, const struct bytes *one, const struct bytes *two)
{
	struct sha256_ctx sha256;

	sha256_init(&sha256);
	sha256_update(&sha256, strlen(key->kty) + 1, (const uint8_t *)key->kty);
	sha256_update(&sha256, one->len, one->data);
	sha256_update(&sha256, two->len, two->data);
	sha256_digest(&sha256, sizeof(key->id), key->id);
}

/* An exponent that is even or 1 makes signatures that anybody can. */
static bool is_exponent(const struct bytes *e)
{
	return e->len <= 4 && (e->data[e->len - 1] & 1) && !(e->len == 1 && e->data[0] == 1);
}

/* Returns whether the JWK is a key of @algorithm's kind, with its numbers in @key. */
static bool import_numbers(struct json_object *jwk, const struct algorithm *algorithm,
	struct jwt_key *key, struct bytes *one, struct bytes *two)
{
	bool is_rsa = !algorithm->crv, is_okp = strcmp(algorithm->kty, "OKP") == 0;
	gnutls_datum_t first, second;

	if (!decode_jwk_member(jwk, is_rsa ? "n" : "x", one))
		return false;
	two->len = 0;
	if (!is_okp && !decode_jwk_member(jwk, is_rsa ? "e" : "y", two))
		return false;
	first = datum_of(one);
	second = datum_of(two);
	if (is_rsa) {
		key->modulus = one->len;
		return one->len >= RSA_LEAST && one->len <= RSA_MOST && one->data[0] != 0 &&
		       is_exponent(two) &&
		       gnutls_pubkey_import_rsa_raw(key->public, &first, &second) == 0;
	}
	if (one->len != 32 || (!is_okp && two->len != 32))
		return false;
	return gnutls_pubkey_import_ecc_raw(key->public,
		       is_okp ? GNUTLS_ECC_CURVE_ED25519 : GNUTLS_ECC_CURVE_SECP256R1, &first,
		       is_okp ? NULL : &second) == 0;
}

static const struct algorithm *jwk_kind(struct json_object *jwk)
{
	struct text kty = text_member(jwk, "kty"), crv = text_member(jwk, "crv");

	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
		if (text_is(kty, algorithms[i].kty) &&
			(!algorithms[i].crv || text_is(crv, algorithms[i].crv)))
			return &algorithms[i];
	return NULL;
}

/* Whether the JWK says that it verifies signatures, or says nothing of its use. */
static bool is_for_signatures(struct json_object *jwk)
{
	struct json_object *ops = json_object_object_get(jwk, "key_ops");

	if (has_member(jwk, "use") && !text_is(text_member(jwk, "use"), "sig"))
		return false;
	if (!has_member(jwk, "key_ops"))
		return true;
	for (size_t i = 0;
		json_object_is_type(ops, json_type_array) && i < json_object_array_length(ops); i++)
		if (text_is(json_text_of(json_object_array_get_idx(ops, i)), "verify"))
			return true;
	return false;
}

/* Returns the name of the algorithm that a JWK of @kty names; NULL: it is not one for such keys. */
static const char *jwk_alg(struct text alg, const char *kty)
{
	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
		if (text_is(alg, algorithms[i].name) && strcmp(kty, algorithms[i].kty) == 0)
			return algorithms[i].name;
	return NULL;
}

static void jwt_key_done(struct jwt_key *key)
{
	if (key->public)
		gnutls_pubkey_deinit(key->public);
	json_object_put(key->kid);
	*key = (struct jwt_key){0};
}

/* Returns 0, 1 if the key is of no use here, or -1 if it is malformed. */
static int read_jwk(struct json_object *jwk, struct jwt_key *key)
{
	_cleanup_free_ struct bytes *numbers = calloc(2, sizeof(*numbers));
	const struct algorithm *kind = jwk_kind(jwk);

	if (!kind || !is_for_signatures(jwk))
		return 1;
	key->alg = jwk_alg(text_member(jwk, "alg"), kind->kty);
	if (has_member(jwk, "alg") && !key->alg)
		return 1;
	if (!numbers || gnutls_pubkey_init(&key->public) < 0)
		return -1;
	key->kty = kind->kty;
	if (has_member(jwk, "kid") && !text_member(jwk, "kid").data)
		return -1;
	key->kid = json_object_get(json_object_object_get(jwk, "kid"));
	if (!import_numbers(jwk, kind, key, &numbers[0], &numbers[1]))
		return -1;
	identify_jwk(key, &numbers[0], &numbers[1]);
	return 0;
}

/* Whether a token could mean either. */
static bool is_ambiguous_jwk(const struct jwt_keys *keys, const struct jwt_key *key)
{
	for (size_t i = 0; i < keys->count; i++) {
		const struct jwt_key *other = &keys->items[i];

		if (key->kid && other->kid && strcmp(key->kty, other->kty) == 0 &&
			text_equal(json_text_of(key->kid), json_text_of(other->kid)))
			return true;
	}
	return false;
}

static const char *read_jwk_list(struct json_object *list, struct jwt_keys *keys)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *jwk = json_object_array_get_idx(list, i);
		struct jwt_key key = {0};
		const char *fault = NULL;
		int r;

		if (!json_object_is_type(jwk, json_type_object))
			return "a key is no object";
		if (has_member(jwk, "d") || has_member(jwk, "k"))
			return "it has a private or secret key, which the gate must not know";
		r = read_jwk(jwk, &key);
		if (r < 0)
			fault = "a key is malformed, or an RSA key of less than 2048 bits";
		else if (r == 0 && is_ambiguous_jwk(keys, &key))
			fault = "two keys have the same kid";
		else if (r == 0 && keys->count == LIMIT_GATE_JWT_KEYS)
			fault = "it has too many keys";
		if (fault || r > 0)
			jwt_key_done(&key);
		else
			keys->items[keys->count++] = key;
		if (fault)
			return fault;
	}
	return keys->count > 0 ? NULL : "it has no key that verifies RS256, PS256, ES256 or EdDSA";
}

struct jwt_keys *jwt_keys_read(struct text content, const char **ret_fault)
{
	struct json_object *root = read_json_object(content);
	struct json_object *list = root ? json_object_object_get(root, "keys") : NULL;
	struct jwt_keys *keys = calloc(1, sizeof(*keys));

	*ret_fault = !keys ? "memory is out"
		     : !json_object_is_type(list, json_type_array)
			     ? "it is no JSON object with an array \"keys\""
			     : read_jwk_list(list, keys);
	json_object_put(root);
	if (!*ret_fault)
		return keys;
	jwt_keys_free(keys);
	return NULL;
}

void jwt_keys_free(struct jwt_keys *keys)
{
	if (!keys)
		return;
	for (size_t i = 0; i < keys->count; i++)
		jwt_key_done(&keys->items[i]);
	free(keys);
}

bool jwt_keys_have(const struct jwt_keys *keys, const uint8_t id[static JWT_KEY_ID_BYTES])
{
	for (size_t i = 0; keys && i < keys->count; i++)
		if (memcmp(keys->items[i].id, id, JWT_KEY_ID_BYTES) == 0)
			return true;
	return false;
}

/* Tokens */

struct parts {
	struct text head, claims, signature;
	struct text signed_text; /* head and claims, as they came */
};

static bool split_token(struct text token, struct parts *ret)
{
	struct text rest = token;

	if (token.len > LIMIT_GATE_JWT_BYTES || token.len == 0)
		return false;
	ret->head = text_take(&rest, '.');
	ret->claims = text_take(&rest, '.');
	ret->signature = rest;
	if (ret->head.len == 0 || ret->claims.len == 0 || ret->signature.len == 0 ||
		memchr(ret->signature.data, '.', ret->signature.len))
		return false;
	ret->signed_text = (struct text){token.data, ret->head.len + 1 + ret->claims.len};
	return true;
}

bool jwt_is_text(struct text text)
{
	struct parts parts;

	return split_token(text, &parts);
}

/* Only tokens that are for access: others of the same issuer say something else. */
static bool is_access_type(struct text typ)
{
	static const char *const types[] = {"JWT", "at+jwt", "application/at+jwt"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (typ.len == strlen(types[i]) && strncasecmp(typ.data, types[i], typ.len) == 0)
			return true;
	return false;
}

/* The algorithm that the head names, or NULL with the reason. */
static const struct algorithm *read_token_head(struct json_object *head, const char **ret_fault)
{
	*ret_fault = "the token's head has an extension that is not known";
	if (has_member(head, "crit") || has_member(head, "b64") || has_member(head, "zip") ||
		has_member(head, "enc"))
		return NULL;
	*ret_fault = "the token is not one for access";
	if (has_member(head, "typ") && !is_access_type(text_member(head, "typ")))
		return NULL;
	*ret_fault = "the token's algorithm is not taken";
	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
		if (text_is(text_member(head, "alg"), algorithms[i].name))
			return &algorithms[i];
	return NULL;
}

/* The key that the head names; without "kid" the only one of the algorithm's kind. */
static const struct jwt_key *find_token_key(
	const struct jwt_keys *keys, struct json_object *head, const struct algorithm *algorithm)
{
	const struct jwt_key *found = NULL;

	for (size_t i = 0; i < keys->count; i++) {
		const struct jwt_key *key = &keys->items[i];

		if (strcmp(key->kty, algorithm->kty) != 0 ||
			(key->alg && strcmp(key->alg, algorithm->name) != 0))
			continue;
		if (has_member(head, "kid")) {
			struct text kid = text_member(head, "kid");

			if (!kid.data || !key->kid || !text_equal(kid, json_text_of(key->kid)))
				continue;
		}
		if (found)
			return NULL;
		found = key;
	}
	return found;
}

static bool verify_token(const struct jwt_key *key, const struct algorithm *algorithm,
	struct text text, struct bytes *signature)
{
	gnutls_datum_t data = {(void *)text.data, (unsigned)text.len};
	gnutls_datum_t given = datum_of(signature), encoded = {0};
	int r;

	if (signature->len != (algorithm->signature ? algorithm->signature : key->modulus))
		return false;
	if (algorithm->sign != GNUTLS_SIGN_ECDSA_SHA256)
		return gnutls_pubkey_verify_data2(key->public, algorithm->sign, 0, &data, &given) >=
		       0;
	/* A JWS has both numbers of fixed length, GnuTLS wants them as DER. */
	r = gnutls_encode_rs_value(&encoded, &(gnutls_datum_t){signature->data, ES256_HALF},
		&(gnutls_datum_t){signature->data + ES256_HALF, ES256_HALF});
	if (r == 0)
		r = gnutls_pubkey_verify_data2(key->public, algorithm->sign, 0, &data, &encoded);
	gnutls_free(encoded.data);
	return r >= 0;
}

/* Reads a time. Returns false if it is no number, or no date. */
static bool read_claimed_time(struct json_object *claims, const char *name, int64_t *ret)
{
	struct json_object *value = json_object_object_get(claims, name);
	double seconds;

	if (!json_object_is_type(value, json_type_int) &&
		!json_object_is_type(value, json_type_double))
		return false;
	seconds = json_object_get_double(value);
	if (!isfinite(seconds) || seconds < 0 || seconds > 1e15)
		return false;
	*ret = (int64_t)seconds;
	return true;
}

static bool is_audience(struct json_object *aud, const char *wanted)
{
	if (!json_object_is_type(aud, json_type_array))
		return text_is(json_text_of(aud), wanted);
	for (size_t i = 0; i < json_object_array_length(aud); i++)
		if (text_is(json_text_of(json_object_array_get_idx(aud, i)), wanted))
			return true;
	return false;
}

static const char *check_claimed_times(
	struct json_object *claims, int64_t now, int64_t *ret_expires)
{
	int64_t begins = 0;

	if (!read_claimed_time(claims, "exp", ret_expires))
		return "the token has no time at which it expires";
	if (*ret_expires <= now)
		return "the token has expired";
	if (has_member(claims, "nbf") && !read_claimed_time(claims, "nbf", &begins))
		return "the token's nbf is no time";
	if (begins > now + LIMIT_GATE_JWT_LEEWAY_S)
		return "the token is not valid yet";
	if (has_member(claims, "iat") && !read_claimed_time(claims, "iat", &begins))
		return "the token's iat is no time";
	return begins > now + LIMIT_GATE_JWT_LEEWAY_S ? "the token is of a later time" : NULL;
}

static void hash_subject(struct jwt_bearer *bearer, struct text issuer, struct text subject)
{
	struct sha256_ctx sha256;
	uint64_t lens[2] = {issuer.len, subject.len};

	sha256_init(&sha256);
	sha256_update(&sha256, sizeof(lens), (const uint8_t *)lens);
	sha256_update(&sha256, issuer.len, (const uint8_t *)issuer.data);
	sha256_update(&sha256, subject.len, (const uint8_t *)subject.data);
	sha256_update(&sha256, strlen(bearer->tenant), (const uint8_t *)bearer->tenant);
	sha256_digest(&sha256, sizeof(bearer->subject), bearer->subject);
}

static const char *check_claims(struct json_object *claims, const struct jwt_rules *rules,
	int64_t now, struct jwt_bearer *ret)
{
	struct text tenant = text_member(claims, rules->tenant_claim),
		    subject = text_member(claims, "sub");
	const char *fault;

	if (!text_is(text_member(claims, "iss"), rules->issuer))
		return "the token is of another issuer";
	if (!is_audience(json_object_object_get(claims, "aud"), rules->audience))
		return "the token is for another audience";
	fault = check_claimed_times(claims, now, &ret->expires);
	if (fault)
		return fault;
	if (subject.len == 0)
		return "the token has no subject";
	if (!gate_key_is_word(tenant, LIMIT_CONFIG_NAME_BYTES))
		return "the token names no tenant";
	memcpy(ret->tenant, tenant.data, tenant.len);
	ret->tenant[tenant.len] = '\0';
	hash_subject(ret, text_from(rules->issuer), subject);
	return NULL;
}

const char *jwt_check(const struct jwt_keys *keys, const struct jwt_rules *rules, struct text token,
	int64_t now, struct jwt_bearer *ret_bearer)
{
	_cleanup_free_ struct bytes *signature = malloc(sizeof(*signature));
	struct json_object *head = NULL, *claims = NULL;
	const struct algorithm *algorithm = NULL;
	const struct jwt_key *key = NULL;
	struct jwt_bearer bearer = {.expires = 0};
	const char *fault = "the token is malformed";
	struct parts parts;

	if (signature && split_token(token, &parts) && decode_base64url(parts.signature, signature))
		head = decode_json_object(parts.head);
	if (head)
		algorithm = read_token_head(head, &fault);
	if (algorithm) {
		fault = "no key verifies the token";
		key = find_token_key(keys, head, algorithm);
	}
	if (key && verify_token(key, algorithm, parts.signed_text, signature)) {
		claims = decode_json_object(parts.claims);
		fault = claims ? check_claims(claims, rules, now, &bearer)
			       : "the token's claims are malformed";
	}
	if (!fault) {
		memcpy(bearer.key, key->id, sizeof(bearer.key));
		*ret_bearer = bearer;
	}
	json_object_put(head);
	json_object_put(claims);
	return fault;
}
