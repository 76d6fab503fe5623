/* SPDX-License-Identifier: Apache-2.0 */
#include "report/humanize/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* A name is read as C++ writes types: path := part ("::" part)*, part := word ["<" args ">"]
 * ["(" parameters ")"]. What is kept is the last part that says something and those of its
 * arguments that carry most meaning, by the classes below. */
enum { ARGS_DEPTH_MAX = 3, ARGS_SHOWN = 3, NAME_MAX_BYTES = 16384 };

typedef struct slice {
    const char *at;
    size_t n;
} slice;

typedef struct sink {
    char *buf;
    size_t n, cap;
} sink;

typedef enum meaning { NOISE, NUMBER, PRIMITIVE, CLASS } meaning;

static void put(sink *out, const char *text, size_t n)
{
    const size_t room = out->cap - 1 - out->n;
    if (n > room)
        n = room;
    memcpy(out->buf + out->n, text, n);
    out->n += n;
}

static bool is(slice s, const char *text)
{
    return strlen(text) == s.n && memcmp(s.at, text, s.n) == 0;
}

static bool in_list(slice s, const char *const *list)
{
    for (; *list; list++)
        if (is(s, *list))
            return true;
    return false;
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '~';
}

static bool is_word(slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!word_char(s.at[i]))
            return false;
    return s.n > 0;
}

static slice trim(slice s)
{
    while (s.n > 0 && s.at[0] == ' ')
        s.at++, s.n--;
    while (s.n > 0 && s.at[s.n - 1] == ' ')
        s.n--;
    return s;
}

static bool strip_end(slice *s, const char *end)
{
    const size_t n = strlen(end);
    if (s->n < n || memcmp(s->at + s->n - n, end, n) != 0)
        return false;
    s->n -= n;
    *s = trim(*s);
    return true;
}

/* How s.at[i] changes the nesting of brackets. */
static int nesting(slice s, size_t i)
{
    switch (s.at[i]) {
    case '(':
    case '<':
    case '{':
    case '[':
        return 1;
    case '>':
        return i > 0 && s.at[i - 1] == '-' ? 0 : -1;
    case ')':
    case '}':
    case ']':
        return -1;
    default:
        return 0;
    }
}

static bool balanced(slice s)
{
    char open[256];
    size_t depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        const int step = nesting(s, i);
        if (step > 0) {
            if (depth == sizeof open)
                return false;
            open[depth++] = s.at[i];
        } else if (step < 0) {
            static const char pairs[] = "(){}[]<>";
            if (depth == 0 || strchr(pairs, open[--depth])[1] != s.at[i])
                return false;
        }
    }
    return depth == 0;
}

/* Bytes of `s` before the first `mark` outside brackets, s.n when there is none. */
static size_t before(slice s, const char *mark)
{
    const size_t n = strlen(mark);
    int depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (depth == 0 && i + n <= s.n && memcmp(s.at + i, mark, n) == 0)
            return i;
        depth += nesting(s, i);
    }
    return s.n;
}

/* Takes the text before `mark` off the front. False when nothing was left. */
static bool next_piece(slice *rest, const char *mark, slice *ret)
{
    if (rest->n == 0)
        return false;
    const size_t n = before(*rest, mark), step = n < rest->n ? n + strlen(mark) : n;
    *ret = trim((slice){rest->at, n});
    rest->at += step;
    rest->n -= step;
    return true;
}

/* "foo<a, b>(x)": word "foo", arguments "a, b". */
static slice word_of(slice part, slice *ret_args)
{
    size_t n = 0;
    while (n < part.n && word_char(part.at[n]))
        n++;
    *ret_args = (slice){part.at + n, 0};
    if (n < part.n && part.at[n] == '<') {
        size_t end = n;
        int depth = 0;
        do
            depth += nesting(part, end++);
        while (end < part.n && depth > 0);
        *ret_args = (slice){part.at + n + 1, end - n - 2};
    }
    return (slice){part.at, n};
}

/* The last part of a path that names something, and its arguments; those of a lambda stand
 * for the arguments of the function that it is in. */
static slice name_of(slice path, slice *ret_args)
{
    static const char *const silent[] = {"operator", "type", "Params", "unnamed", "value", NULL};
    slice name = {path.at, 0}, part;
    *ret_args = name;
    while (next_piece(&path, "::", &part)) {
        if (part.n > 8 && memcmp(part.at, "{lambda(", 8) == 0) {
            const char *close = memchr(part.at, '}', part.n);
            size_t n = 8;
            while (part.at + n < close && part.at[n] != ')')
                n++;
            if (ret_args->n == 0 && close)
                *ret_args = (slice){part.at + 8, n - 8};
            continue;
        }
        slice args;
        const slice word = word_of(part, &args);
        if (word.n > 0 && !in_list(word, silent)) {
            name = word;
            *ret_args = args;
        }
    }
    return name;
}

static slice without_qualifiers(slice s)
{
    s = trim(s);
    while (strip_end(&s, "&") || strip_end(&s, "*") || strip_end(&s, " const"))
        ;
    if (s.n > 6 && memcmp(s.at, "const ", 6) == 0)
        s = (slice){s.at + 6, s.n - 6};
    return s;
}

static meaning meaning_of(slice s)
{
    static const char *const primitives[] = {
        "float",       "double",   "int",           "long",           "short",   "char",
        "bool",        "unsigned", "signed",        "void",           "Half",    "BFloat16",
        "__half",      "half",     "__nv_bfloat16", "__nv_bfloat162", "__half2", "Float8_e4m3fn",
        "Float8_e5m2", "complex",  "int8_t",        "uint8_t",        "int16_t", "int32_t",
        "int64_t",     "uint32_t", "uint64_t",      "float2",         "float4",  "half_t",
        "bfloat16_t",  NULL};
    static const char *const noise[] = {"Array",
                                        "array",
                                        "TrivialOffsetCalculator",
                                        "OffsetCalculator",
                                        "LoadWithoutCast",
                                        "StoreWithoutCast",
                                        "LoadWithCast",
                                        "StoreWithCast",
                                        "TensorListMetadata",
                                        "TensorListScalarListMetadata",
                                        "FusedOptimizerTensorListMetadata",
                                        "integral_constant",
                                        "TensorInfo",
                                        "IndexToOffset",
                                        "allocator",
                                        "Policy",
                                        NULL};
    s = without_qualifiers(s);
    slice args;
    const slice name = name_of(s, &args);
    if (s.n == 0 || name.n == 0)
        return s.n > 0 && (s.at[0] == '-' || s.at[0] == '(') ? NUMBER : NOISE;
    if (isdigit((unsigned char)name.at[0]) || is(name, "true") || is(name, "false"))
        return NUMBER;
    if (in_list(name, noise))
        return NOISE;
    return in_list(name, primitives) ? PRIMITIVE : CLASS;
}

static void put_type(sink *out, slice s, int depth);

/* "<A, B>": those of the highest meaning, equal ones once. */
static void put_args(sink *out, slice args, int depth)
{
    slice rest = args, arg, shown[ARGS_SHOWN];
    meaning best = NOISE;
    int n = 0;
    while (next_piece(&rest, ",", &arg))
        if (meaning_of(arg) > best)
            best = meaning_of(arg);
    if (best == NOISE || depth > ARGS_DEPTH_MAX)
        return;
    for (rest = args; n < ARGS_SHOWN && next_piece(&rest, ",", &arg);) {
        bool seen = meaning_of(arg) != best;
        arg = without_qualifiers(arg);
        for (int i = 0; i < n; i++)
            seen = seen || (shown[i].n == arg.n && memcmp(shown[i].at, arg.at, arg.n) == 0);
        if (seen)
            continue;
        put(out, n == 0 ? "<" : ", ", n == 0 ? 1 : 2);
        put_type(out, arg, depth);
        shown[n++] = arg;
    }
    put(out, ">", 1);
}

/* The first argument that is a class. */
static bool class_in(slice args, slice *ret)
{
    while (next_piece(&args, ",", ret))
        if (meaning_of(*ret) == CLASS)
            return true;
    return false;
}

static void put_type(sink *out, slice s, int depth)
{
    /* wrappers that say nothing beside the one class that they hold */
    static const char *const plumbing[] = {"gpu_kernel_impl_nocast",
                                           "gpu_kernel_impl",
                                           "ReduceOp",
                                           "func_wrapper_t",
                                           "Kernel",
                                           "Kernel2",
                                           NULL};
    slice args, inner, name = name_of(s, &args);
    while (in_list(name, plumbing) && class_in(args, &inner)) {
        s = without_qualifiers(inner);
        name = name_of(s, &args);
    }
    if (name.n == 0 || meaning_of(s) <= NUMBER) {
        put(out, s.at, s.n);
        return;
    }
    if (is(name, "unsigned") || is(name, "long") || is(name, "signed")) {
        put(out, s.at, s.n); /* "unsigned long long" is one word of several */
        return;
    }
    put(out, name.at, name.n);
    put_args(out, args, depth + 1);
}

/* Is it the signature of a C++ function? Then without parameters and return type. */
static bool signature(slice *name)
{
    slice s = trim(*name);
    while (s.n > 0 && s.at[s.n - 1] == ']' && memchr(s.at, '[', s.n)) /* "[clone .kd]" */
        while (s.n > 0 && s.at[--s.n] != '[')
            ;
    s = trim(s);
    strip_end(&s, " const");
    if (s.n == 0 || s.n > NAME_MAX_BYTES || !memchr(">)", s.at[s.n - 1], 2) || !balanced(s) ||
        before(s, ": ") < s.n) /* "evaluate_function: CppNode<...>" is a sentence */
        return false;
    size_t open = s.n, space = 0;
    int depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (depth == 0 && s.at[i] == '(')
            open = i;
        depth += nesting(s, i);
    }
    if (s.at[s.n - 1] == ')') {
        if (open == 0 || !(word_char(s.at[open - 1]) || s.at[open - 1] == '>'))
            return false;
        s.n = open;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (depth == 0 && s.at[i] == ' ')
            space = i + 1;
        depth += nesting(s, i);
    }
    s = (slice){s.at + space, s.n - space};

    slice rest = s, part, args;
    while (next_piece(&rest, "::", &part)) /* a path of words, or no C++ */
        if (part.n == 0 || (part.at[0] != '(' && part.at[0] != '{' && part.at[0] != '<' &&
                            !is_word(word_of(part, &args))))
            return false;
    const slice last = name_of(s, &args);
    if (last.n == 0 || (args.n == 0 && s.n == name->n))
        return false;
    *name = s;
    return true;
}

static void put_name(sink *out, slice name)
{
    slice s = name;
    if (signature(&s))
        put_type(out, s, 0);
    else
        put(out, name.at, name.n);
}

/* "a, b": the analyses join names so. */
static void put_names(sink *out, slice names)
{
    for (size_t n; (n = before(names, ", ")) < names.n;
         names = (slice){names.at + n + 2, names.n - n - 2}) {
        put_name(out, (slice){names.at, n});
        put(out, ", ", 2);
    }
    put_name(out, names);
}

size_t orr_short_name(const char *name, char *buf, size_t cap)
{
    sink out = {buf, 0, cap};
    if (cap == 0)
        return 0;
    for (const char *bar; (bar = strchr(name, '|')); name = bar + 1) {
        put_names(&out, (slice){name, (size_t)(bar - name)});
        put(&out, "|", 1);
    }
    put_names(&out, (slice){name, strlen(name)});
    buf[out.n] = '\0';
    return out.n;
}
