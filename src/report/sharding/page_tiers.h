/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_SHARDING_PAGE_TIERS_H
#define ORR_REPORT_SHARDING_PAGE_TIERS_H

#include "report/page/page.h"

/* The section of tiers, of a plan that has them. */
void orr_sharding_put_tiers(const orr_html_page *page, const orr_sharding_report *report);

#endif /* ORR_REPORT_SHARDING_PAGE_TIERS_H */
