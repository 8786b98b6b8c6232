"""What must hold at the end of a soak, compared with its ledger."""

import collections

from soak_daemon import ROWS

# Reasons for which a campaign with an honest specification may have failed. None is known.
ALLOWED_FAILURES = ()


def list_campaigns(soak):
    from fulcrum.v1 import campaign_service_pb2
    listed, token = {}, ""
    while True:
        page = soak.call(soak.campaigns.ListCampaigns, campaign_service_pb2.ListCampaignsRequest(page_token=token))
        listed.update((campaign.name, campaign) for campaign in page.campaigns)
        token = page.next_page_token
        if not token:
            return listed


def verify(soak):
    listed = list_campaigns(soak)
    for name in sorted(soak.ledger.expected()):
        campaign = listed.get(name)
        if campaign is None:
            soak.ledger.fail(f"the campaign {name} is lost")
        elif verify_campaign(soak, name, campaign):
            verify_labels(soak, name)


def verify_campaign(soak, name, campaign):
    """Whether its labels can be read."""
    from fulcrum.v1 import campaign_pb2
    state = campaign_pb2.CampaignState.Name(campaign.state)[15:]
    soak.counts[f"state at the end: {state}"] += 1
    if state == "BROKEN":
        soak.ledger.fail(f"the campaign {name} is broken: {campaign.state_reason}")
        return False
    honest = name.startswith("c")
    if state == "FAILED" and honest and not any(text in campaign.state_reason for text in ALLOWED_FAILURES):
        soak.ledger.fail(f"the campaign {name} has failed: {campaign.state_reason}")
    for condition in campaign.conditions:
        if "events are missing" in condition.reason:
            soak.ledger.fail(f"the campaign {name}: {condition.reason}")
    if honest and campaign.pool_rows < ROWS + soak.ledger.appended[name]:
        soak.ledger.fail(f"{name} has {campaign.pool_rows} rows; {soak.ledger.appended[name]} were appended")
    return True


def verify_labels(soak, name):
    from fulcrum.v1 import campaign_pb2, campaign_service_pb2
    sent, stored = soak.ledger.sent[name], collections.Counter()
    pages = soak.campaigns.ExportLabels(campaign_service_pb2.ExportLabelsRequest(campaign=name), timeout=60)
    for line in (label for page in pages for label in page.labels):
        key = (line.item_id, line.annotator)
        stored[key] += line.kind == campaign_pb2.LABEL_KIND_LABEL
        if line.value not in sent[key]:
            soak.ledger.fail(f"{name}: {key} is stored as '{line.value}', sent were {sent[key]}")
    for key, count in stored.items():
        if count > 1:
            soak.counts["labels doubled"] += 1
            soak.ledger.fail(f"{name}: the label {key} is stored {count} times")
    for key in soak.ledger.acknowledged[name]:
        if stored[key] != 1:
            soak.counts["labels lost"] += stored[key] == 0
            soak.ledger.fail(f"{name}: the acknowledged label {key} is stored {stored[key]} times")
    soak.counts["labels verified"] += len(soak.ledger.acknowledged[name])
    soak.counts["campaigns verified"] += 1
