import { useState } from 'preact/hooks'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import { bytes } from '../commands/figures.ts'
import type { PageApi } from './api.ts'
import { HistoryCharts } from './chart.tsx'
import { usePolled } from './model.ts'
import { dollars, Facts, Notice, Stale, StillReading } from './parts.tsx'
import type { ChartedSample } from './telemetry-series.ts'

/** What the page reads of the agent's /health. */
interface Health {
  readonly device: string
  readonly version: string
  readonly mode: string
  readonly slm: string | null
  readonly draining: boolean
  readonly bridge: string
  readonly bridgeId: string | null
  readonly reasons: readonly { readonly code: string; readonly message: string; readonly hint: string | null }[]
  readonly answersInProgress: number
}

const everyMs = 5_000
const maxSamples = 720

/** The device that this page comes from, as its agent sees it. */
export function OwnDevicePage({ api }: { readonly api: PageApi }) {
  const [samples, setSamples] = useState<readonly ChartedSample[]>([])
  const { value, problem } = usePolled(
    async (signal) => {
      const health = await api.get<Health>('/health', signal)
      const spending = await api.get<Spending>('/budget', signal)
      const { condition } = await api.get<{ condition: DeviceCondition | null }>('/condition', signal)
      const at = new Date().toISOString()
      if (condition) setSamples((before) => [...before, { ...condition, link: null, at }].slice(-maxSamples))
      return { health, spending, condition }
    },
    everyMs,
    [],
  )
  if (!value) return <StillReading what="the device" problem={problem} />
  const { health, spending, condition } = value
  const { device: hardware, bundles, memory, disk, battery } = condition ?? {}
  return (
    <section class="page">
      <h1>{health.device}</h1>
      <Stale problem={problem} />
      {health.draining && <Notice text="draining: it takes no new jobs" />}
      {health.reasons.map(({ code, message, hint }) => (
        <Notice text={[message, hint].filter(Boolean).join(': ')} isProblem key={code} />
      ))}
      <Facts
        of={{
          Agent: health.version,
          Bridge: health.bridge === 'connected' ? `connected to ${health.bridgeId}` : health.bridge,
          Mode: health.mode,
          Model: bundles?.llm?.name,
          'Small model': health.slm,
          'Answers now': String(health.answersInProgress),
          Module: hardware?.module ?? hardware?.model,
          'Power mode': hardware?.powerMode,
          'Memory free': memory && `${bytes(memory.freeBytes)} of ${bytes(memory.totalBytes)}`,
          'Disk free': disk && `${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)}`,
          Battery: battery && `${Math.round(battery.levelPercent ?? 0)} %, ${battery.state}`,
        }}
      />
      <Budget spending={spending} />
      <h2>Since this page was opened</h2>
      {samples.length < 2 ? <Notice text="two samples make a line" /> : <HistoryCharts samples={samples} />}
    </section>
  )
}

function Budget({ spending: { windowS, server, slm, hat } }: { readonly spending: Spending }) {
  const of = (spent: string, max: string | null) => (max === null ? spent : `${spent} of ${max}`)
  const joules = (value: number | null) => (value === null ? '–' : `${value.toPrecision(3)} J`)
  return (
    <>
      <h2>Spent in {Math.round((windowS ?? 0) / 3_600)} h</h2>
      <Facts
        of={{
          Server: of(dollars(server.dollars), server.maxDollars === null ? null : dollars(server.maxDollars)),
          'Small model': of(joules(slm.joules), slm.maxJoules === null ? null : joules(slm.maxJoules)),
          Tokens: `${server.tokens ?? 0} by the server, ${slm.tokens ?? 0} by the small model, ${hat.tokens ?? 0} by HAT`,
        }}
      />
    </>
  )
}
