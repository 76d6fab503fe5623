/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/reward.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LENGTH, DIGITS, MATCH };

orr_status orr_reward_parse(const char *name, orr_reward *ret, orr_error *err)
{
    static const char match[] = "match:";
    *ret = (orr_reward){.kind = LENGTH};
    if (name != NULL && strcmp(name, "length") == 0)
        return ORR_OK;
    ret->kind = DIGITS;
    if (name != NULL && strcmp(name, "digits") == 0)
        return ORR_OK;
    *ret = (orr_reward){.kind = MATCH, .text = name != NULL ? name + sizeof match - 1 : NULL};
    if (name != NULL && strncmp(name, match, sizeof match - 1) == 0 && ret->text[0] != '\0')
        return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "a reward is length, digits or match:TEXT%s%s; models of rewards are not run",
                    name != NULL ? ", not " : "", name != NULL ? name : "");
}

double orr_reward_of(const orr_reward *reward, const char *answer, size_t len, int64_t tokens,
                     int64_t most)
{
    size_t digits = 0;
    switch (reward->kind) {
    case LENGTH:
        return (double)tokens / (double)most;
    case DIGITS:
        for (size_t i = 0; i < len; i++)
            digits += answer[i] >= '0' && answer[i] <= '9';
        return len > 0 ? (double)digits / (double)len : 0;
    default:
        return memmem(answer, len, reward->text, strlen(reward->text)) != NULL;
    }
}

double orr_ppo_clipped_loss(double loss, double before, double advantage, double clip,
                            double *ret_by)
{
    const double ratio = exp(before - loss);
    const double kept = fmin(fmax(ratio, 1 - clip), 1 + clip);
    const bool clipped = kept * advantage < ratio * advantage;
    *ret_by = clipped ? 0 : ratio * advantage;
    return -(clipped ? kept : ratio) * advantage;
}
