import { disclosureCells } from '../../core/wire/protocol/disclosure-text.ts'
import type { DisclosureList } from '../../core/wire/protocol/disclosures.ts'
import { usePolled, useSession } from './model.ts'
import { Notice, Stale, StillReading, Table } from './parts.tsx'

const shownEntries = 200

/** What has left the device for each answer, to where and why: the ledger of its agent, the newest first. */
export function DisclosuresPage() {
  const { api } = useSession()
  const { value, problem } = usePolled(
    (signal) => api.get<DisclosureList>(`/v1/disclosures?limit=${shownEntries}`, signal),
    2_000,
    [],
  )
  if (!value) return <StillReading what="the ledger" problem={problem} />
  const { recording, disclosures } = value
  return (
    <section class="page">
      <h1>What has left this device</h1>
      <p class="dim">
        Sizes, modes, reasons and destinations, recorded before anything is sent; never a prompt or an answer. Times are UTC.
      </p>
      <Stale problem={problem} />
      {(recording.unstored > 0 || recording.failure !== null) && (
        <Notice text={`${recording.unstored} entries are not on disk: ${recording.failure ?? 'it was full'}`} isProblem />
      )}
      {disclosures.length === 0 ? (
        <Notice text="no answers yet" />
      ) : (
        <Table
          label="Ledger"
          head={['time', 'answer', 'mode', 'why', 'left the device', 'to']}
          rows={disclosures.toReversed().map(disclosureCells)}
        />
      )}
    </section>
  )
}
