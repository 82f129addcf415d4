select manager, amount from {{ ref('revenue') }} where status = 'paid'
