/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_SOCKET_LOCAL_H
#define ORR_IO_SOCKET_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/status.h>

/* Sockets between processes of one machine: AF_UNIX with abstract names, which leave no file
 * behind, unix(7). They say who is at the other end, and when it has died. */
enum { ORR_LOCAL_NAME_BYTES = 40 };

/* A listening socket under a new name. Errors: IO. */
orr_status orr_local_listen(char ret_name[ORR_LOCAL_NAME_BYTES], int *ret_fd,
                            orr_error *err) ORR_MUST_CHECK;
/* A socket that is connected, or -1 and errno. It does not wait. */
int orr_local_connect(const char *name);
/* Any user of the machine may know a name, but only processes of this one are trusted. */
bool orr_local_is_same_user(int fd);
/* A number of the processes that reach one another so: of this boot of this machine, and of the
 * network namespace, which holds the names and which containers do not share. 0: not known. */
uint64_t orr_local_machine_id(void);

#endif /* ORR_IO_SOCKET_LOCAL_H */
