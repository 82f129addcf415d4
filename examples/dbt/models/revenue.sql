{{ config(materialized='materialized_view') }}

select r.manager, o.status, sum(o.amount) as amount
from {{ ref('orders') }} as o join {{ ref('regions') }} as r on o.region = r.region
group by r.manager, o.status
