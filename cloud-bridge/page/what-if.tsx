import { useEffect, useRef, useState } from 'preact/hooks'
import type {
  WhatIfEvent,
  WhatIfFact,
  WhatIfRequest,
  WhatIfSettings,
  WhatIfSituation,
} from '../../core/wire/protocol/http/what-if.ts'
import { errorText } from './api.ts'
import { usePolled, useSession } from './model.ts'
import { dollars, duration, Facts, Notice, Select, Stale, StillReading, Table } from './parts.tsx'

const goals: readonly WhatIfRequest['goal'][] = ['ttft', 'latency', 'qos', 'cost', 'energy']

/** What a user may change, with its unit. */
const changeable: Readonly<Record<keyof WhatIfSettings, string>> = {
  model: 'Model',
  gpu: 'GPU',
  smallModel: 'Small model',
  board: 'Board',
  devices: 'Devices',
  up: 'Uplink, Mbit/s',
  down: 'Downlink, Mbit/s',
  rtt: 'Round trip, ms',
  battery: 'Battery, 0 to 1',
  serverPrice: 'Price, $ per million of prompt/answer',
  acceptLength: 'Accept length',
}
const others: Readonly<Record<string, string>> = {
  gpus: 'GPUs',
  replicas: 'Copies of the model',
  readingSpeed: 'Reading, tokens/s',
}
const texts: readonly string[] = ['model', 'gpu', 'smallModel', 'board', 'serverPrice']

const everyMs = 5_000

/** Other ways of answering what this fleet was asked, by the simulator. */
export function WhatIfPage() {
  const { api } = useSession()
  const { value: situation, problem } = usePolled((signal) => api.get<WhatIfSituation>('/v1/what-if', signal), everyMs, [])
  const [event, setEvent] = useState<WhatIfEvent>({})
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  async function run(request: WhatIfRequest) {
    const stop = new AbortController()
    running.current = stop
    setEvent({ progress: { what: 'starting', percent: 0 } })
    try {
      let last: WhatIfEvent = {}
      const events = api.events<WhatIfEvent>('/v1/what-if', stop.signal, undefined, request)
      for await (last of events) setEvent(last)
      if (last.progress) throw new Error('the bridge has ended the simulation')
    } catch (error) {
      setEvent(stop.signal.aborted ? {} : { error: { code: '', message: errorText(error) } })
    }
  }
  if (!situation) return <StillReading what="the situation" problem={problem} />
  const { progress, result, error } = event
  return (
    <section class="page">
      <h1>What if</h1>
      <Stale problem={problem} />
      <p>
        The simulator answers the recorded requests once more in every way that agents and bridge have, on this fleet’s hardware.
      </p>
      <Situation of={situation} />
      <Form situation={situation} isRunning={progress !== undefined} onRun={run} onStop={() => running.current?.abort()} />
      <p role="status">{progress && `${progress.what}: ${progress.percent} %`}</p>
      <Notice text={error && [error.message, error.hint].filter(Boolean).join(' – ')} isProblem />
      {result && <Result of={result} />}
    </section>
  )
}

function Situation({ of: { requests, minRequests, spanS, promptTokens, outputTokens } }: { readonly of: WhatIfSituation }) {
  return (
    <>
      <Facts
        of={{
          'Requests recorded': String(requests),
          Within: requests > 1 && duration(1_000 * spanS),
          'Prompt, tokens': promptTokens?.toFixed(0),
          'Answer, tokens': outputTokens?.toFixed(0),
        }}
      />
      {requests < minRequests && (
        <Notice
          text={`Too few: a simulation needs ${minRequests}. The bridge counts those since its start, its own answers and those of devices with it. Let them ask, or run “brim simulate what-if” with a trace of your own.`}
        />
      )}
    </>
  )
}

interface FormProps {
  readonly situation: WhatIfSituation
  readonly isRunning: boolean
  onRun(request: WhatIfRequest): void
  onStop(): void
}

function Form({ situation: { requests, minRequests, facts }, isRunning, onRun, onStop }: FormProps) {
  const [goal, setGoal] = useState(goals[0]!)
  const [isPrivate, setPrivate] = useState(false)
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({})
  const settings = Object.fromEntries(
    Object.entries(given).flatMap(([name, text]) =>
      text.trim() === '' ? [] : [[name, texts.includes(name) ? text.trim() : Number(text)]],
    ),
  )
  function submit(event: Event) {
    event.preventDefault()
    onRun({ goal, private: isPrivate, settings })
  }
  return (
    <form onSubmit={submit}>
      <div class="bar">
        <Select label="Best by" names={goals} value={goal} choose={(name) => setGoal(name)} />
        <label>
          <input type="checkbox" checked={isPrivate} onChange={({ currentTarget }) => setPrivate(currentTarget.checked)} />{' '}
          Questions stay on the device
        </label>
        <button type="submit" class="main" disabled={isRunning || requests < minRequests}>
          Simulate
        </button>
        <button type="button" hidden={!isRunning} onClick={onStop}>
          Stop
        </button>
      </div>
      <details>
        <summary>Other hardware</summary>
        <div class="bar">
          {Object.entries(changeable).map(([name, title]) => (
            <label key={name}>
              {title}{' '}
              <input
                size={14}
                placeholder={String(facts.find(({ option }) => option === name)?.value ?? 'assumed')}
                value={given[name] ?? ''}
                onInput={({ currentTarget }) => setGiven({ ...given, [name]: currentTarget.value })}
              />
            </label>
          ))}
        </div>
      </details>
    </form>
  )
}

function Result({ of: { best, ways, facts, files } }: { readonly of: NonNullable<WhatIfEvent['result']> }) {
  const ms = ({ mean, p95 }: { readonly mean: number | null; readonly p95: number | null }) =>
    `${duration(mean)} / ${duration(p95)}`
  return (
    <>
      <h2>Best: {best}</h2>
      <p class="figures">
        Simulated, not measured. Small models answer less well than the bridge’s model, which no figure counts.
      </p>
      <Table
        label="Ways of answering"
        head={['Way', 'TTFT mean / P95', 'TBT P95', 'Answer P95', 'QoS', 'Cost of 1,000', 'Energy', 'Not answered']}
        rows={ways.map((way) => [
          way.name === best ? <strong>→ {way.name}</strong> : way.name,
          ms(way.ttftMs),
          duration(way.tbtP95Ms),
          duration(way.latencyP95Ms),
          way.qos?.toPrecision(3),
          dollars(way.dollars === null ? null : 1_000 * way.dollars),
          way.joules === null ? '–' : `${way.joules.toPrecision(3)} J`,
          way.requests - way.answered,
        ])}
      />
      <h2>Its settings</h2>
      {Object.entries(files).map(([name, text]) => (
        <details key={name}>
          <summary>{name}.yaml</summary>
          <pre>{text}</pre>
        </details>
      ))}
      <h2>What went in</h2>
      <Table label="What went in" head={['', 'Value', '', 'How it is known']} rows={facts.map(rowOf)} />
    </>
  )
}

const rowOf = ({ option, value, basis, note }: WhatIfFact) => [
  changeable[option as keyof WhatIfSettings] ?? others[option] ?? option,
  value,
  basis === 'assumed' ? <strong class="warn">assumed</strong> : basis,
  note,
]
