"""A nightly DAG for Apache Airflow 2: select the examples worth labeling, then check that the batch is not empty.

`fulcrum select` reads files, writes files, and reports the result by its exit code. Outputs are written atomically, so a
retried task leaves no partial files.
"""

from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash import BashOperator

SELECT = """
fulcrum select --pool "{{ params.pool }}" --labels "{{ params.labels }}" \\
    --strategy dbalevs --batch {{ params.batch }} --seed 1 \\
    --out "{{ params.folder }}/{{ ds }}.csv" --report "{{ params.folder }}/{{ ds }}.json"
"""

with DAG(
    dag_id="fulcrum_select",
    description="Selects the examples to label next",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=15), "execution_timeout": timedelta(hours=4)},
    params={
        "pool": "/srv/pools/today.parquet",
        "labels": "/srv/pools/labels.csv",
        "folder": "/srv/pools/batches",
        "batch": 100,
    },
    tags=["fulcrum"],
) as dag:
    # Exit code 99: nothing left to select. The task and its downstream tasks are skipped.
    select = BashOperator(task_id="select", bash_command=SELECT, skip_on_exit_code=99)
    check = BashOperator(task_id="check", bash_command='test "$(wc -l < "{{ params.folder }}/{{ ds }}.csv")" -gt 1')
    select >> check
