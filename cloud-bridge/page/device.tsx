import { useState } from 'preact/hooks'
import { isAway, problemWords } from '../../core/policy/fleet/problem-order.ts'
import type {
  DeviceDetails,
  Device as DeviceRecord,
  deviceOperations,
  FleetEvent,
  LogLine,
  TelemetrySample,
} from '../../core/wire/protocol/http/devices.ts'
import type { JobSummary } from '../../core/wire/protocol/http/jobs.ts'
import type { ResponseOf } from '../../core/wire/protocol/http/operation.ts'
import { age, bytes, compact } from '../commands/figures.ts'
import type { PageApi } from './api.ts'
import { HistoryCharts } from './chart.tsx'
import { JobTable } from './jobs.tsx'
import { useTask } from './model.ts'
import { clockTime, Facts, labelList, Notice, Stale, StillReading } from './parts.tsx'
import { type ChartedSample, withLatest } from './telemetry-series.ts'

const ranges = { '10 minutes': 600, '1 hour': 3_600, '6 hours': 21_600, '1 day': 86_400, '1 week': 604_800 } as const
type Range = keyof typeof ranges
/** A chart shows no more points, and a page of the API has no more samples. */
const maxSamples = 5_000
const recentJobs = 500

interface Props {
  readonly api: PageApi
  readonly id: string
  /** Whether the user may see jobs. */
  readonly isOperator: boolean
}

/** One device: what it is, its history, jobs and log. */
export function DevicePage({ api, id, isOperator }: Props) {
  const [details, setDetails] = useState<DeviceDetails>()
  const [now, setNow] = useState<DeviceRecord>()
  const [samples, setSamples] = useState<readonly ChartedSample[]>([])
  const [range, setRange] = useState<Range>('1 hour')
  const [problem, setProblem] = useState<string>()
  const [jobs, setJobs] = useState<readonly JobSummary[]>([])
  const path = `/v1/devices/${encodeURIComponent(id)}`

  useTask(
    async (signal) => {
      await api.follow(
        async (onOpen) => {
          setDetails(await api.get<DeviceDetails>(path, signal))
          setSamples(await historyOf(api, path, ranges[range], signal))
          for await (const { type, now } of api.events<FleetEvent>(`${path}/events`, signal, onOpen)) {
            if (now === null) continue
            setNow(now)
            const { telemetry } = now
            if (type === 'telemetry' && telemetry) setSamples((before) => withLatest(before, telemetry, maxSamples))
          }
          return false
        },
        setProblem,
        signal,
      )
    },
    [id, range],
  )
  useTask(
    async (signal) => {
      if (!isOperator) return
      const { jobs } = await api.get<{ jobs: JobSummary[] }>(`/v1/jobs?limit=${recentJobs}`, signal).catch(() => ({ jobs: [] }))
      setJobs(jobs.filter(({ device, lastDevice, boundTo }) => [device, lastDevice, boundTo].includes(id)))
    },
    [id, now?.jobs],
  )
  const device = now ?? details
  if (!device) return <StillReading what={id} problem={problem} />
  return (
    <section class="page">
      <p>
        <a href="#/fleet">← Fleet</a>
      </p>
      <h1>{id}</h1>
      <Stale problem={problem} />
      {device.problems.map(({ kind, detail }) => (
        <Notice text={[problemWords(kind), detail].filter(Boolean).join(': ')} isProblem key={kind} />
      ))}
      <Condition device={device} />
      <h2>
        History{' '}
        <select
          aria-label="Length of the history"
          value={range}
          onChange={({ currentTarget }) => setRange(currentTarget.value as Range)}
        >
          {Object.keys(ranges).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </h2>
      {samples.length === 0 ? <Notice text="no samples in this time" /> : <HistoryCharts samples={samples} />}
      {isOperator ? (
        <>
          <h2>Jobs</h2>
          <JobTable jobs={jobs} />
        </>
      ) : (
        <p class="dim">{device.jobs} jobs on the device. An operator's key shows them.</p>
      )}
      <h2>Log</h2>
      <Log api={api} path={path} />
    </section>
  )
}

/** The samples of the latest `seconds`, page after page; of more than a chart can show the latest. */
async function historyOf(api: PageApi, path: string, seconds: number, signal: AbortSignal): Promise<readonly ChartedSample[]> {
  let since: string | null = new Date(Date.now() - seconds * 1_000).toISOString()
  let samples: TelemetrySample[] = []
  while (since !== null) {
    type Page = ResponseOf<typeof deviceOperations.telemetry>
    const page: Page = await api.get<Page>(`${path}/telemetry?limit=${maxSamples}&since=${encodeURIComponent(since)}`, signal)
    samples = [...samples, ...page.samples].slice(-maxSamples)
    since = page.more ? page.next : null
  }
  return samples
}

function Condition({ device }: { readonly device: DeviceRecord }) {
  const { state, agent, seenS, labels, telemetry, identity, computing } = device
  const { device: hardware, bundles, battery, disk, memory, throttling, fan, spool, link } = telemetry ?? {}
  return (
    <div class={state !== null && isAway({ state }) ? 'away' : ''}>
      <Facts
        of={{
          State: identity && identity.status !== 'approved' ? identity.status : (state ?? 'never connected'),
          Seen: `${age(seenS)} ago`,
          Module: hardware?.module ?? hardware?.model ?? hardware?.kind,
          System: [hardware?.os, hardware?.jetpack && `JetPack ${hardware.jetpack}`].filter(Boolean).join(', '),
          'Power mode': hardware?.powerMode,
          Agent: agent,
          Model: bundles?.llm?.name,
          'Small model': bundles?.slm?.name,
          'Computed by': (computing?.llm ?? computing?.slm)?.provider,
          Throttled: throttling?.isThrottled ? throttling.causes.join(', ') || 'yes' : throttling?.isThrottled === false && 'no',
          Battery: battery && `${compact(battery.levelPercent)} %, ${battery.state}`,
          Fan: fan?.rpm != null && `${fan.rpm} rpm`,
          'Memory free': memory && `${bytes(memory.freeBytes)} of ${bytes(memory.totalBytes)}`,
          'Disk free': disk && `${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)}`,
          Link: link && `↑ ${compact(link.upBytesPerS)} ↓ ${compact(link.downBytesPerS)} B/s, ${compact(link.rttMs)} ms`,
          'Waiting to be sent': spool?.waiting ? `${spool.waiting} samples` : '',
          Labels: labelList(labels),
        }}
      />
    </div>
  )
}

const levels = ['error', 'warn', 'info', 'debug'] as const
/** Lines in the document. */
const maxLines = 500

function Log({ api, path }: { readonly api: PageApi; readonly path: string }) {
  const [level, setLevel] = useState<(typeof levels)[number]>('warn')
  const [lines, setLines] = useState<readonly LogLine[]>([])
  const [problem, setProblem] = useState<string>()
  useTask(
    (signal) => {
      setLines([])
      return api.follow(
        async (onOpen) => {
          for await (const line of api.events<LogLine>(`${path}/log?level=${level}&lines=200`, signal, onOpen))
            setLines((before) => withLine(before, line))
          return false
        },
        setProblem,
        signal,
      )
    },
    [path, level],
  )
  return (
    <>
      <p>
        <label>
          Level{' '}
          <select value={level} onChange={({ currentTarget }) => setLevel(currentTarget.value as (typeof levels)[number])}>
            {levels.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>{' '}
        <span class="dim">{problem ?? 'The device sends warnings and errors always, the rest on request.'}</span>
      </p>
      {lines.length === 0 ? (
        <Notice text="no lines" />
      ) : (
        <ol class="log" aria-label="Log lines, the latest last">
          {lines.map(({ at, level, component, message, fields, ...line }) => (
            <li key={`${at} ${line.birth} ${component} ${message}`} class={level}>
              <time>{clockTime(at)}</time> {level} {component}: {message} <span class="dim">{fieldsText(fields)}</span>
            </li>
          ))}
        </ol>
      )}
    </>
  )
}

/** A stream that was opened again begins with lines that are shown already; those of before a restart the bridge has no more. */
function withLine(lines: readonly LogLine[], line: LogLine): readonly LogLine[] {
  const { n: _, heardAt: __, ...content } = line
  const text = JSON.stringify(content)
  const isShown = lines.some(({ n: _, heardAt: __, ...other }) => other.at === line.at && JSON.stringify(other) === text)
  return isShown ? lines : [...lines, line].slice(-maxLines)
}

const fieldsText = (fields: LogLine['fields']): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(' ')
