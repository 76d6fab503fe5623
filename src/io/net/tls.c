/* SPDX-License-Identifier: Apache-2.0 */
#include "io/net/tls.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "base/library.h"

#define FUNCTIONS(X)                                                                               \
    X(TLS_client_method)                                                                           \
    X(TLS_server_method)                                                                           \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_set_ciphersuites)                                                                    \
    X(SSL_CTX_set_num_tickets)                                                                     \
    X(SSL_CTX_set_psk_use_session_callback)                                                        \
    X(SSL_CTX_set_psk_find_session_callback)                                                       \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_session_reused)                                                                          \
    X(SSL_new)                                                                                     \
    X(SSL_free)                                                                                    \
    X(SSL_get_SSL_CTX)                                                                             \
    X(SSL_CTX_get_ex_data)                                                                         \
    X(SSL_CTX_set_ex_data)                                                                         \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_do_handshake)                                                                            \
    X(SSL_get_error)                                                                               \
    X(SSL_read)                                                                                    \
    X(SSL_write)                                                                                   \
    X(SSL_pending)                                                                                 \
    X(SSL_SESSION_new)                                                                             \
    X(SSL_SESSION_free)                                                                            \
    X(SSL_SESSION_set1_master_key)                                                                 \
    X(SSL_SESSION_set_cipher)                                                                      \
    X(SSL_SESSION_set_protocol_version)                                                            \
    X(SSL_CIPHER_find)                                                                             \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_free)                                                                               \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_new)                                                                                     \
    X(BIO_set_data)                                                                                \
    X(BIO_get_data)                                                                                \
    X(BIO_set_init)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_clear_flags)                                                                             \
    X(ERR_clear_error)                                                                             \
    X(EVP_Q_digest)
ORR_LIBRARY_API(FUNCTIONS, "libssl.so.3")

enum { KEY_BYTES = 32, RECORD = 16 << 10 };
static const char identity[] = "orrery";
static const unsigned char aes_128_gcm_sha256[2] = {0x13, 0x01};

struct orr_net_tls {
    SSL_CTX *roles[2]; /* of who called, of who was called */
    BIO_METHOD *socket;
    unsigned char key[KEY_BYTES];
};

struct orr_net_tls_session {
    SSL *ssl;
    int fd;
};

/* --- the socket: never a signal where the peer is gone ---------------------------------------- */

static int finished(BIO *bio, ssize_t n, int retry)
{
    api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        api.BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int socket_read(BIO *bio, char *to, int n)
{
    const orr_net_tls_session *session = api.BIO_get_data(bio);
    return finished(bio, recv(session->fd, to, (size_t)n, MSG_DONTWAIT), BIO_FLAGS_READ);
}

static int socket_write(BIO *bio, const char *from, int n)
{
    const orr_net_tls_session *session = api.BIO_get_data(bio);
    return finished(bio, send(session->fd, from, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL),
                    BIO_FLAGS_WRITE);
}

static long socket_control(BIO *bio, int command, long number, void *at)
{
    (void)bio, (void)number, (void)at;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* --- the key ---------------------------------------------------------------------------------- */

static SSL_SESSION *session_of_key(SSL *ssl)
{
    const orr_net_tls *tls = api.SSL_CTX_get_ex_data(api.SSL_get_SSL_CTX(ssl), 0);
    SSL_SESSION *made = api.SSL_SESSION_new();
    const SSL_CIPHER *cipher = api.SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    if (made == NULL || cipher == NULL ||
        api.SSL_SESSION_set1_master_key(made, tls->key, sizeof tls->key) != 1 ||
        api.SSL_SESSION_set_cipher(made, cipher) != 1 ||
        api.SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) != 1) {
        api.SSL_SESSION_free(made);
        return NULL;
    }
    return made;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_id_bytes,
                   SSL_SESSION **ret)
{
    (void)md; /* of the one cipher suite that there is */
    *ret = session_of_key(ssl);
    *ret_id = (const unsigned char *)identity;
    *ret_id_bytes = sizeof identity - 1;
    return *ret != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **ret)
{
    const bool known = id_bytes == sizeof identity - 1 && memcmp(id, identity, id_bytes) == 0;
    *ret = known ? session_of_key(ssl) : NULL;
    return 1; /* without a session there is no common key, and the handshake fails */
}

/* --- of a net --------------------------------------------------------------------------------- */

static bool available;
static void find_library(void)
{
    available = find_api();
}

static SSL_CTX *context(orr_net_tls *tls, bool accepted)
{
    SSL_CTX *made = api.SSL_CTX_new(accepted ? api.TLS_server_method() : api.TLS_client_method());
    if (made == NULL)
        return NULL;
    api.SSL_CTX_ctrl(made, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    api.SSL_CTX_ctrl(made, SSL_CTRL_MODE,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    api.SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256");
    api.SSL_CTX_set_num_tickets(made, 0);
    api.SSL_CTX_set_ex_data(made, 0, tls);
    if (accepted)
        api.SSL_CTX_set_psk_find_session_callback(made, find_key);
    else
        api.SSL_CTX_set_psk_use_session_callback(made, use_key);
    /* No certificate is trusted: who answers with one in place of the key is refused. */
    if (!accepted)
        api.SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
    return made;
}

static bool set_up(orr_net_tls *tls, const orr_net_key *key)
{
    size_t bytes = 0;
    if (api.EVP_Q_digest(NULL, "SHA256", NULL, key->at, key->bytes, tls->key, &bytes) != 1 ||
        bytes != sizeof tls->key)
        return false;
    tls->socket = api.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "orrery");
    if (tls->socket == NULL)
        return false;
    api.BIO_meth_set_read(tls->socket, socket_read);
    api.BIO_meth_set_write(tls->socket, socket_write);
    api.BIO_meth_set_ctrl(tls->socket, socket_control);
    for (int accepted = 0; accepted < 2; accepted++)
        if ((tls->roles[accepted] = context(tls, accepted == 1)) == NULL)
            return false;
    return true;
}

orr_status orr_net_tls_new(const orr_net_key *key, orr_net_tls **ret, orr_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library);
    if (!available)
        return orr_fail(err, ORR_UNSUPPORTED, "a key needs OpenSSL 3 (libssl.so.3)%s%s",
                        missing_function != NULL ? ", which here lacks " : "",
                        missing_function != NULL ? missing_function : "");
    orr_net_tls *tls = orr_calloc(1, sizeof *tls);
    if (tls == NULL || !set_up(tls, key)) {
        orr_net_tls_free(tls);
        return orr_fail_memory(err);
    }
    *ret = tls;
    return ORR_OK;
}

void orr_net_tls_free(orr_net_tls *tls)
{
    if (tls == NULL)
        return;
    for (int i = 0; i < 2; i++)
        api.SSL_CTX_free(tls->roles[i]);
    if (tls->socket != NULL)
        api.BIO_meth_free(tls->socket);
    explicit_bzero(tls->key, sizeof tls->key);
    orr_free(tls);
}

/* --- of a connection -------------------------------------------------------------------------- */

orr_net_tls_session *orr_net_tls_begin(const orr_net_tls *tls, int fd, bool accepted)
{
    orr_net_tls_session *session = orr_calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->fd = fd;
    session->ssl = api.SSL_new(tls->roles[accepted ? 1 : 0]);
    BIO *bio = session->ssl != NULL ? api.BIO_new(tls->socket) : NULL;
    if (bio == NULL) {
        orr_net_tls_end(session);
        return NULL;
    }
    api.BIO_set_data(bio, session);
    api.BIO_set_init(bio, 1);
    api.SSL_set_bio(session->ssl, bio, bio);
    if (accepted)
        api.SSL_set_accept_state(session->ssl);
    else
        api.SSL_set_connect_state(session->ssl);
    return session;
}

void orr_net_tls_end(orr_net_tls_session *session)
{
    if (session == NULL)
        return;
    api.SSL_free(session->ssl);
    orr_free(session);
}

orr_net_tls_state orr_net_tls_handshake(orr_net_tls_session *session)
{
    api.ERR_clear_error();
    const int came = api.SSL_do_handshake(session->ssl);
    if (came == 1) /* a handshake by anything but the key proves nothing */
        return api.SSL_session_reused(session->ssl) == 1 ? ORR_NET_TLS_PROVEN : ORR_NET_TLS_FAILED;
    const int why = api.SSL_get_error(session->ssl, came);
    api.ERR_clear_error();
    return why == SSL_ERROR_WANT_READ    ? ORR_NET_TLS_READING
           : why == SSL_ERROR_WANT_WRITE ? ORR_NET_TLS_WRITING
                                         : ORR_NET_TLS_FAILED;
}

/* Bytes moved; 0: later; -1: it is over. */
static ssize_t moved(orr_net_tls_session *session, int n)
{
    if (n > 0)
        return n;
    const int why = api.SSL_get_error(session->ssl, n);
    api.ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return 0;
    errno = 0;
    return -1;
}

static ssize_t move(orr_net_tls_session *session, const struct iovec *parts, int n, bool out)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < parts[i].iov_len;) {
            char *place = (char *)parts[i].iov_base + at;
            const int most = (int)orr_min_size(parts[i].iov_len - at, INT32_MAX);
            api.ERR_clear_error();
            const ssize_t here = moved(session, out ? api.SSL_write(session->ssl, place, most)
                                                    : api.SSL_read(session->ssl, place, most));
            if (here <= 0)
                return sum > 0 ? (ssize_t)sum : here;
            sum += (size_t)here;
            at += (size_t)here;
        }
    return (ssize_t)sum;
}

ssize_t orr_net_tls_send(orr_net_tls_session *session, const struct iovec *parts, int n)
{
    return move(session, parts, n, true);
}

ssize_t orr_net_tls_receive(orr_net_tls_session *session, const struct iovec *parts, int n)
{
    return move(session, parts, n, false);
}

bool orr_net_tls_has_pending(const orr_net_tls_session *session)
{
    return api.SSL_pending(session->ssl) > 0;
}
