import { useState } from 'preact/hooks'
import { problemWords } from '../../core/policy/fleet/problem-order.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'
import type { Device, DeviceDetails, deviceOperations, FleetEvent, LogLine } from '../../core/wire/protocol/http/devices.ts'
import type { JobSummary } from '../../core/wire/protocol/http/jobs.ts'
import type { ResponseOf } from '../../core/wire/protocol/http/operation.ts'
import { age, bytes, compact } from '../commands/figures.ts'
import type { PageApi } from './api.ts'
import { HistoryCharts } from './chart.tsx'
import { JobTable } from './jobs.tsx'
import { useFollowed, usePolled, useSession } from './model.ts'
import { clockTime, Facts, labelList, Notice, Select, Stale, StillReading } from './parts.tsx'
import { type ChartedSample, withLatest } from './telemetry-series.ts'

const ranges = { '10 minutes': 600, '1 hour': 3_600, '6 hours': 21_600, '1 day': 86_400, '1 week': 604_800 } as const
type Range = keyof typeof ranges
/** A chart shows no more points, and a page of the API has no more samples. */
const maxSamples = 5_000

/** One device: what it is, its history, jobs and log. */
export function DevicePage({ id }: { readonly id: string }) {
  const { api, isOperator } = useSession()
  const [device, setDevice] = useState<Device>()
  const [samples, setSamples] = useState<readonly ChartedSample[]>([])
  const [range, setRange] = useState<Range>('1 hour')
  const path = `/v1/devices/${encodeURIComponent(id)}`
  const problem = useFollowed(
    async (signal, onOpen) => {
      setDevice(await api.get<DeviceDetails>(path, signal))
      setSamples(await historyOf(api, path, ranges[range], signal))
      for await (const { type, now } of api.events<FleetEvent>(`${path}/events`, signal, onOpen)) {
        if (now) setDevice(now)
        const latest = type === 'telemetry' && now?.telemetry
        if (latest) setSamples((before) => withLatest(before, latest, maxSamples))
      }
      return false
    },
    [path, range],
  )
  if (!device) return <StillReading what={id} problem={problem} />
  const { state, agent, seenS, labels, telemetry, identity, computing, problems } = device
  const { link } = telemetry ?? {}
  return (
    <section class="page">
      <a href="#/fleet">← Fleet</a>
      <h1>{id}</h1>
      <Stale problem={problem} />
      {problems.map(({ kind, detail }) => (
        <Notice text={[problemWords(kind), detail].filter(Boolean).join(': ')} isProblem key={kind} />
      ))}
      <Facts
        of={{
          State: identity && identity.status !== 'approved' ? identity.status : (state ?? 'never connected'),
          Seen: `${age(seenS)} ago`,
          Agent: agent,
          'Computed by': (computing?.llm ?? computing?.slm)?.provider,
          Link: link && `↑ ${compact(link.upBytesPerS)} ↓ ${compact(link.downBytesPerS)} B/s, ${compact(link.rttMs)} ms`,
          Labels: labelList(labels),
          ...conditionFacts(telemetry ?? {}),
        }}
      />
      <h2>
        History <Select label="of" names={Object.keys(ranges) as Range[]} value={range} choose={(name) => setRange(name)} />
      </h2>
      {samples.length === 0 ? <Notice text="no samples in this time" /> : <HistoryCharts samples={samples} />}
      <h2>Jobs</h2>
      {isOperator ? <DeviceJobs id={id} /> : <Notice text={`${device.jobs} on the device; an operator's key shows them`} />}
      <h2>Log</h2>
      <Log path={path} />
    </section>
  )
}

type Condition = { readonly [Name in keyof DeviceCondition]?: DeviceCondition[Name] | undefined }

/** What a device says of itself, here and at its own agent. */
export function conditionFacts({ device, bundles, throttling, battery, fan, memory, disk, spool }: Condition) {
  const isThrottled = throttling?.isThrottled
  return {
    Module: device?.module ?? device?.model ?? device?.kind,
    System: [device?.os, device?.jetpack && `JetPack ${device.jetpack}`].filter(Boolean).join(', '),
    'Power mode': device?.powerMode,
    Model: bundles?.llm?.name,
    'Small model': bundles?.slm?.name,
    Throttled: isThrottled ? throttling.causes.join(', ') || 'yes' : isThrottled === false && 'no',
    Battery: battery && `${compact(battery.levelPercent)} %, ${battery.state}`,
    Fan: fan?.rpm != null && `${fan.rpm} rpm`,
    'Memory free': memory && `${bytes(memory.freeBytes)} of ${bytes(memory.totalBytes)}`,
    'Disk free': disk && `${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)}`,
    'Waiting to be sent': spool?.waiting ? `${spool.waiting} samples` : '',
  }
}

/** The samples of the latest `seconds`, page after page; of more than a chart can show the latest. */
async function historyOf(api: PageApi, path: string, seconds: number, signal: AbortSignal): Promise<readonly ChartedSample[]> {
  type Page = ResponseOf<typeof deviceOperations.telemetry>
  let since: string | null = new Date(Date.now() - seconds * 1_000).toISOString()
  let samples: readonly ChartedSample[] = []
  while (since !== null) {
    const page: Page = await api.get<Page>(`${path}/telemetry?limit=${maxSamples}&since=${encodeURIComponent(since)}`, signal)
    samples = [...samples, ...page.samples].slice(-maxSamples)
    since = page.more ? page.next : null
  }
  return samples
}

/** Of the latest jobs of the fleet those that this device has or had. */
function DeviceJobs({ id }: { readonly id: string }) {
  const { api } = useSession()
  const read = (signal: AbortSignal) => api.get<{ jobs: JobSummary[] }>('/v1/jobs?limit=500', signal)
  const { value, problem } = usePolled(read, 5_000, [id])
  if (!value) return <StillReading what="jobs" problem={problem} />
  return <JobTable jobs={value.jobs.filter(({ device, lastDevice, boundTo }) => [device, lastDevice, boundTo].includes(id))} />
}

const levels = ['error', 'warn', 'info', 'debug'] as const
/** Lines in the document. */
const maxLines = 500

function Log({ path }: { readonly path: string }) {
  const { api } = useSession()
  const [level, setLevel] = useState<LogLine['level']>('warn')
  const [lines, setLines] = useState<readonly LogLine[]>([])
  const problem = useFollowed(
    async (signal, onOpen) => {
      for await (const line of api.events<LogLine>(`${path}/log?level=${level}&lines=200`, signal, onOpen))
        setLines((before) => (before.some((each) => keyOf(each) === keyOf(line)) ? before : [...before, line].slice(-maxLines)))
      return false
    },
    [path, level],
  )
  // Of a level that was chosen before there may be more, and of one that begins now older ones.
  const shown = lines
    .filter((line) => levels.indexOf(line.level) <= levels.indexOf(level))
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
  return (
    <>
      <Select label="Level" names={levels} value={level} choose={(name) => setLevel(name)} />{' '}
      <span class="dim">A device sends warnings and errors always, the rest on request.</span>
      <Stale problem={problem} />
      {shown.length === 0 && <Notice text="no lines" />}
      <ol class="log" aria-label="Log lines, the latest last">
        {shown.map((line) => (
          <li key={keyOf(line)} class={line.level}>
            <time>{clockTime(line.at)}</time> {line.level} {line.component}: {line.message}{' '}
            <span class="dim">{fieldsText(line.fields)}</span>
          </li>
        ))}
      </ol>
    </>
  )
}

/** A stream that was opened again begins with lines that are shown already, under numbers of its own after a restart of the bridge. */
const keyOf = ({ at, birth, component, message, fields }: LogLine) => JSON.stringify([at, birth, component, message, fields])

const fieldsText = (fields: LogLine['fields']) =>
  labelList(Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)])))
