import { useEffect, useRef, useState } from 'preact/hooks'
import type { WhatIfEvent, WhatIfFact, WhatIfRequest, WhatIfSituation } from '../../core/wire/protocol/http/what-if.ts'
import { errorText } from './api.ts'
import { usePolled, useSession } from './model.ts'
import { dollars, duration, Notice, Select, Stale, StillReading, Table } from './parts.tsx'

const goals: readonly WhatIfRequest['goal'][] = ['ttft', 'latency', 'qos', 'cost', 'energy']
const units: Readonly<Record<string, string>> = {
  ...{ up: 'Mbit/s', down: 'Mbit/s', rtt: 'ms', battery: '0 to 1', 'reading-speed': 'tokens/s' },
  ...{ 'server-price': '$ per million tokens, prompt/answer' },
}
const everyMs = 5_000

/** Other ways of answering what this fleet was asked, by the simulator. */
export function WhatIfPage() {
  const { api } = useSession()
  const { value, problem } = usePolled((signal) => api.get<WhatIfSituation>('/v1/what-if', signal), everyMs, [])
  const [goal, setGoal] = useState(goals[0]!)
  const [isPrivate, setPrivate] = useState(false)
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({})
  const [{ progress, result, error }, setEvent] = useState<WhatIfEvent>({})
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  async function run(submitted: Event) {
    submitted.preventDefault()
    running.current = new AbortController()
    const { signal } = running.current
    setEvent({ progress: { what: 'starting', percent: 0 } })
    const settings = Object.fromEntries(Object.entries(given).filter(([, text]) => text !== ''))
    try {
      let last: WhatIfEvent = {}
      for await (last of api.events<WhatIfEvent>('/v1/what-if', signal, undefined, { goal, private: isPrivate, settings }))
        setEvent(last)
      if (last.progress) throw new Error('the bridge has ended the simulation')
    } catch (failure) {
      setEvent(signal.aborted ? {} : { error: { code: '', message: errorText(failure) } })
    }
  }
  if (!value) return <StillReading what="the situation" problem={problem} />
  const { requests, minRequests, facts } = value
  const isTooFew = requests < minRequests
  const input = ({ option, value: known }: WhatIfFact) => (
    <input
      size={16}
      aria-label={option}
      placeholder={known ?? 'default'}
      value={given[option] ?? ''}
      onInput={({ currentTarget }) => setGiven({ ...given, [option]: currentTarget.value.trim() })}
    />
  )
  return (
    <section class="page">
      <h1>What if</h1>
      <Stale problem={problem} />
      <p>
        The simulator answers the {requests} requests that the bridge has recorded since its start, in every way that agents and
        bridge have, on the hardware below.
      </p>
      <Notice
        text={
          isTooFew
            ? `Too few: a simulation needs ${minRequests}. Let clients and devices ask, or run “brim simulate what-if” with a trace of your own.`
            : ''
        }
      />
      <form class="bar" onSubmit={run}>
        <Select label="Best by" names={goals} value={goal} choose={(name) => setGoal(name)} />
        <label>
          <input type="checkbox" checked={isPrivate} onChange={({ currentTarget }) => setPrivate(currentTarget.checked)} />{' '}
          questions stay on the device
        </label>
        <button type="submit" class="main" disabled={isTooFew || progress !== undefined}>
          Simulate
        </button>
        <button type="button" hidden={progress === undefined} onClick={() => running.current?.abort()}>
          Stop
        </button>
        <span role="status">{progress && `${progress.what}: ${progress.percent} %`}</span>
      </form>
      <Notice text={error && [error.message, error.hint].filter(Boolean).join(' – ')} isProblem />
      {result && <Result of={result} />}
      <h2>What goes in</h2>
      <Table
        label="What goes in"
        head={['Option', 'Value', 'Another value', 'Basis', 'How it is known']}
        rows={(result?.facts ?? facts).map((fact) => [
          `${fact.option} ${units[fact.option] ? `(${units[fact.option]})` : ''}`,
          fact.value ?? 'default',
          input(fact),
          <span class={fact.basis === 'assumed' ? 'warn' : ''}>{fact.basis}</span>,
          fact.note,
        ])}
      />
    </section>
  )
}

function Result({ of: { best, tried, files, facts } }: { readonly of: NonNullable<WhatIfEvent['result']> }) {
  const isPriced = facts.some(({ option, basis }) => option === 'server-price' && basis !== 'assumed')
  return (
    <>
      <h2>Best: {best}</h2>
      <p class="figures">Simulated, not measured. No figure counts that small models answer less well.</p>
      <Table
        label="Ways of answering"
        head={['Way', 'TTFT', 'P95', 'TBT P95', 'Answer P95', 'QoS', '$ per 1,000', 'J per answer', 'Not answered']}
        rows={tried.map(({ name, all: { requests, answered, ttftMs, tbtMs, latencyMs, qos, work } }) => [
          name === best ? <strong>→ {name}</strong> : name,
          ...[ttftMs.mean, ttftMs.p95, tbtMs.p95, latencyMs.p95].map(duration),
          qos?.toPrecision(3),
          dollars(isPriced ? (1_000 * work.dollars) / answered : null),
          // 0: the board has no known power.
          work.joules > 0 ? (work.joules / answered).toPrecision(3) : '–',
          requests - answered,
        ])}
      />
      {Object.entries(files).map(([name, text]) => (
        <details class="card" key={name}>
          <summary>{name}.yaml of it</summary>
          <pre>{text}</pre>
        </details>
      ))}
    </>
  )
}
