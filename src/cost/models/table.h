/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_MODELS_TABLE_H
#define ORR_COST_MODELS_TABLE_H

#include <orrery/cost.h>

/* Table model: measured shapes, and interpolation between them.
 *
 * A series holds the measurements of one family, dtype and direction on one device and, in
 * families whose dims do not distinguish operators (OTHER, REDUCTION, ELEMENTWISE, OPTIMIZER),
 * of one operator or kernel. A measured shape is answered with its median. Others are
 * interpolated in octaves (log2 of each dim; of bytes and FLOPs where dims do not determine
 * them): the mean of the nearest shapes' ln ns, weighted by 1/distance^2 (Shepard's method, ACM
 * 1968), or, where that did better on validation, of ln(ns / roofline ns), times the roofline of
 * the requested shape. No answer outside the bounding box of measured shapes, or further than
 * ORR_TABLE_MAX_DISTANCE octaves from all of them. Threads: any; nothing is allocated. */
enum { ORR_TABLE_COORDS = ORR_WORK_DIMS + 2, ORR_TABLE_NEIGHBOURS_MAX = 8 };
/* A factor of four in one dim. Assumed; errors on held-out shapes are measured with it. */
#define ORR_TABLE_MAX_DISTANCE 2.0
/* Range of a point's time: samples beyond are ignored, files beyond refused. */
#define ORR_TABLE_NS_MIN    1e-3
#define ORR_TABLE_NS_MAX    1e18
#define ORR_TABLE_BYTES_MAX 1e18
#define ORR_TABLE_FLOPS_MAX 1e24

typedef struct orr_table_point {
    int64_t dims[ORR_WORK_DIMS]; /* 0 beyond the series' n_dims */
    double flops, read_bytes, write_bytes;
    double ns;      /* median */
    uint64_t count; /* number of measurements */
    double coord[ORR_TABLE_COORDS];
} orr_table_point;

typedef struct orr_table_series {
    uint8_t family, dtype, copy, n_dims;
    bool backward;
    const char *label, *device;    /* "" where the family has no label */
    const orr_table_point *points; /* shape (n), increasing by orr_table_compare_points() */
    const uint32_t *tree;          /* shape (n), of orr_table_index() */
    uint32_t n;
    double low[ORR_TABLE_COORDS], high[ORR_TABLE_COORDS];
} orr_table_series;

typedef struct orr_table_family {
    bool present, trend; /* trend: interpolate ns over roofline ns */
    uint32_t neighbours; /* 0: measured shapes only */
    double error_frac;   /* of interpolation on the test set; NAN */
    double repeat_frac;  /* mean |ns / median - 1| of repeated measurements; NAN */
} orr_table_family;

typedef struct orr_cost_table {
    orr_table_family families[ORR_FAMILIES];
    const orr_table_series *series; /* shape (n), increasing by orr_table_compare_series() */
    uint32_t n;
} orr_cost_table;

bool orr_table_price(const orr_cost_table *table, const orr_device *device, const orr_work *work,
                     orr_price *ret);

/* The series that a work belongs to, without points. */
orr_table_series orr_table_series_of(const orr_device *device, const orr_work *work);
/* A point for the work; ns and count are left to the caller. */
orr_table_point orr_table_point_of(const orr_work *work);
uint32_t orr_table_coords(const orr_table_series *series);
int orr_table_compare_series(const orr_table_series *a, const orr_table_series *b);
int orr_table_compare_points(const orr_table_point *a, const orr_table_point *b);
/* Computes the coordinates of a point. */
void orr_table_locate(const orr_table_series *series, orr_table_point *point);

/* Computes the bounding box and the k-d tree of a series (table_kd_tree.c). */
orr_status orr_table_index(orr_table_series *series, orr_arena *arena,
                           orr_error *err) ORR_MUST_CHECK;
typedef struct orr_table_neighbour {
    double squared; /* distance */
    uint32_t point;
} orr_table_neighbour;
/* The nearest points, at most `most`, nearest first; on a tie in the series' order. */
uint32_t orr_table_nearest(const orr_table_series *series, const orr_table_point *wanted,
                           uint32_t most, orr_table_neighbour found[ORR_TABLE_NEIGHBOURS_MAX]);

#endif /* ORR_COST_MODELS_TABLE_H */
