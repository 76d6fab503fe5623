/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "team/member/coordinator_list.h"

static void test_read(void **state)
{
    orr_coordinator_list list;
    orr_error err;
    char room[2 * ORR_NET_ADDRESS_BYTES];
    (void)state;
    assert_int_equal(orr_coordinator_list_read("a:1,[::1]:2,c:3", &list, &err), ORR_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.addresses[1], "[::1]:2");
    static const char *const wrong[] = {
        NULL, "", ",", "a:1,", ",a:1", "a:1,,b:2", "1,2,3,4,5,6,7,8,9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(orr_coordinator_list_read(wrong[i], &list, &err), ORR_INVALID);
    memset(room, 'a', sizeof room);
    for (size_t n = ORR_NET_ADDRESS_BYTES - 1; n <= ORR_NET_ADDRESS_BYTES; n++) {
        room[n] = '\0';
        assert_int_equal(orr_coordinator_list_read(room, &list, &err),
                         n < ORR_NET_ADDRESS_BYTES ? ORR_OK : ORR_INVALID);
        room[n] = 'a';
    }
}

static void test_who_is_called_next(void **state)
{
    orr_coordinator_list list;
    orr_error err;
    (void)state;
    assert_int_equal(orr_coordinator_list_read("a,b,c", &list, &err), ORR_OK);
    assert_string_equal(orr_coordinator_list_call(&list), "a");
    list.answered = true;
    orr_coordinator_list_lost(&list); /* it may have been started again */
    assert_string_equal(orr_coordinator_list_call(&list), "a");
    orr_coordinator_list_lost(&list);
    assert_string_equal(orr_coordinator_list_call(&list), "b");
    list.answered = true;
    orr_coordinator_list_next(&list); /* it stands by */
    assert_string_equal(orr_coordinator_list_call(&list), "c");
    orr_coordinator_list_lost(&list);
    assert_string_equal(orr_coordinator_list_call(&list), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_who_is_called_next)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
