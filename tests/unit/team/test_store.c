/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "../io/folder.h"
#include "team/store/store.h"

static const int64_t SECOND = 1000 * 1000 * 1000;

static void test_log(void **state)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    assert_int_equal(orr_team_store_open(in_folder(state, "etcd"), SECOND, &store, &err), ORR_OK);
    assert_string_equal(store->name, "log");
    orr_team_store_close(store);
    assert_int_equal(access(in_folder(state, "etcd"), F_OK), 0);
    orr_team_store_close(NULL);
}

static void test_etcd(void **state)
{
    (void)state;
    static const char *const right[] = {"etcd:http://a:2379/key", "etcd:a/key",
                                        "etcd:a:1,b:2/k,e/y", "etcd:https://a:1,http://b:2/jobs/1",
                                        "etcd:[::1]:2379/k"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        orr_error err = {0};
        orr_team_store *store = NULL;
        const orr_status status = orr_team_store_open(right[i], SECOND, &store, &err);
        if (status == ORR_UNSUPPORTED) {
            print_message("skipped: %s\n", err.text);
            skip();
        }
        assert_int_equal(status, ORR_OK);
        assert_string_equal(store->name, "etcd");
        orr_team_store_close(store);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "etcd:",
                                        "etcd:http://a:2379",
                                        "etcd:http://a:2379/",
                                        "etcd:a,b",
                                        "etcd:http://a,http://b"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_error err = {0};
        orr_team_store *store = NULL;
        assert_int_equal(orr_team_store_open(wrong[i], SECOND, &store, &err), ORR_INVALID);
        assert_true(err.text[0] != '\0');
        assert_null(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log, make_folder, remove_folder),
        cmocka_unit_test(test_etcd),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
