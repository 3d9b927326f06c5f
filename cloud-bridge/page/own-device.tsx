import { useState } from 'preact/hooks'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import { HistoryCharts } from './chart.tsx'
import { conditionFacts } from './device.tsx'
import { usePolled, useSession } from './model.ts'
import { dollars, Facts, Notice, Stale, StillReading } from './parts.tsx'
import type { ChartedSample } from './telemetry-series.ts'

/** What the page reads of the agent's /health. */
interface Health {
  readonly device: string
  readonly version: string
  readonly mode: string
  readonly draining: boolean
  readonly bridge: string
  readonly bridgeId: string | null
  readonly reasons: readonly { readonly code: string; readonly message: string; readonly hint: string | null }[]
  readonly answersInProgress: number
}

const everyMs = 2_000
const maxSamples = 1_800

/** The device that this page comes from, as its agent sees it. */
export function OwnDevicePage() {
  const { api } = useSession()
  const [samples, setSamples] = useState<readonly ChartedSample[]>([])
  const { value, problem } = usePolled(
    async (signal) => {
      const health = await api.get<Health>('/health', signal)
      const spending = await api.get<Spending>('/budget', signal)
      const { condition } = await api.get<{ condition: DeviceCondition | null }>('/condition', signal)
      const sample = condition && { ...condition, link: null, at: new Date().toISOString() }
      if (sample) setSamples((before) => [...before, sample].slice(-maxSamples))
      return { health, spending, condition }
    },
    everyMs,
    [],
  )
  if (!value) return <StillReading what="the device" problem={problem} />
  const { version, device, mode, draining, bridge, bridgeId, reasons, answersInProgress } = value.health
  const { windowS, server, slm, hat } = value.spending
  const limited = (spent: string, max: number | null) => (max === null ? spent : `${spent} of ${max}`)
  return (
    <section class="page">
      <h1>{device}</h1>
      <Stale problem={problem} />
      <Notice text={draining ? 'draining: it takes no new jobs' : ''} />
      {reasons.map(({ code, message, hint }) => (
        <Notice text={[message, hint].filter(Boolean).join(': ')} isProblem key={code} />
      ))}
      <Facts
        of={{
          Agent: version,
          Bridge: bridge === 'connected' ? `connected to ${bridgeId}` : bridge,
          Mode: mode,
          'Answers now': String(answersInProgress),
          ...conditionFacts(value.condition ?? {}),
        }}
      />
      <h2>Spent in {Math.round((windowS ?? 0) / 3_600)} h</h2>
      <Facts
        of={{
          Server: limited(dollars(server.dollars), server.maxDollars),
          'Small model': limited(slm.joules === null ? '–' : `${slm.joules.toPrecision(3)} J`, slm.maxJoules),
          Tokens: `${server.tokens ?? 0} by the server, ${slm.tokens ?? 0} by the small model, ${hat.tokens ?? 0} by HAT`,
        }}
      />
      <h2>Since this page was opened</h2>
      {samples.length < 2 ? <Notice text="two samples make a line" /> : <HistoryCharts samples={samples} />}
    </section>
  )
}
