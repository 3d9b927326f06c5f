import type { RolloutDevice, Rollout as RolloutRecord } from '../../core/wire/protocol/http/rollouts.ts'
import type { PageApi } from './api.ts'
import { usePolled } from './model.ts'
import { Action, clockTime, Facts, Notice, Stale, StillReading, Table } from './parts.tsx'

const everyMs = 2_000

interface Props {
  readonly api: PageApi
  readonly isOperator: boolean
}

export function RolloutsPage({ api, isOperator }: Props) {
  const { value, problem } = usePolled((signal) => api.get<{ rollouts: RolloutRecord[] }>('/v1/rollouts', signal), everyMs, [])
  const rollouts = value?.rollouts
  return (
    <section class="page">
      <h1>Rollouts</h1>
      <Stale problem={problem} />
      {rollouts?.length === 0 && <Notice text="none yet: “brim rollout create” begins one" />}
      {rollouts?.map((rollout) => (
        <article class="card" key={rollout.id}>
          <h2>
            <a href={`#/rollout/${rollout.id}`}>{rollout.id}</a> <span class="dim">{rollout.kind}</span>
          </h2>
          <Progress rollout={rollout} />
          <Controls api={api} rollout={rollout} isOperator={isOperator} />
        </article>
      ))}
    </section>
  )
}

/** In the order in which a bar shows them. */
const states = ['succeeded', 'failed', 'canceled', 'started', 'waiting', 'skipped'] as const

function Progress({ rollout: { state, reason, devices, ratePerMinute } }: { readonly rollout: RolloutRecord }) {
  const text = states.flatMap((name) => (devices[name] === 0 ? [] : [`${devices[name]} ${name}`])).join(', ')
  return (
    <>
      <div class="progress" role="img" aria-label={text}>
        {states.map((name) => (
          <span class={name} style={{ flexGrow: devices[name] }} key={name} />
        ))}
      </div>
      <p>
        <strong>{state}</strong>
        {reason === null ? '' : `: ${reason}`} · {text} of {devices.total}
        {state === 'running' && ` · ${ratePerMinute}/min`}
        {devices.soaking > 0 && ` · ${devices.soaking} watched`}
      </p>
    </>
  )
}

function Controls({ api, rollout: { id, state, devices }, isOperator }: Props & { readonly rollout: RolloutRecord }) {
  const run = (verb: string) => () => api.post(`/v1/rollouts/${encodeURIComponent(id)}/${verb}`)
  const isOpen = state === 'running' || state === 'paused'
  return (
    <p class="bar">
      <Action text="Pause" audit="rollout.pause" isAllowed={isOperator && state === 'running'} run={run('pause')} />
      <Action text="Resume" audit="rollout.resume" isAllowed={isOperator && state === 'paused'} run={run('resume')} />
      <Action
        text="Abort"
        confirm="Abort, and cancel its jobs"
        audit="rollout.abort"
        isAllowed={isOperator && isOpen}
        run={run('abort')}
      />
      <Action
        text="Retry the failed"
        confirm={`Begin another one for ${devices.failed}`}
        audit="rollout.retry"
        isAllowed={isOperator && !isOpen && devices.failed > 0}
        run={run('retry')}
      />
    </p>
  )
}

type Details = RolloutRecord & { readonly failures: readonly RolloutDevice[] }
/** In the document; the API has the rest. */
const shownDevices = 1_000

export function RolloutPage({ api, id, isOperator }: Props & { readonly id: string }) {
  const path = `/v1/rollouts/${encodeURIComponent(id)}`
  const { value, problem } = usePolled(
    async (signal) => {
      const rollout = await api.get<Details>(path, signal)
      const { devices } = await api.get<{ devices: RolloutDevice[] }>(`${path}/devices?limit=${shownDevices}`, signal)
      return { rollout, devices }
    },
    everyMs,
    [id],
  )
  if (!value) return <StillReading what={`rollout ${id}`} problem={problem} />
  const { rollout, devices } = value
  return (
    <section class="page">
      <p>
        <a href="#/rollouts">← Rollouts</a>
      </p>
      <h1>{id}</h1>
      <Stale problem={problem} />
      <Progress rollout={rollout} />
      <Controls api={api} rollout={rollout} isOperator={isOperator} />
      <Facts
        of={{
          Kind: rollout.kind,
          Begun: `${clockTime(rollout.createdAt)} by ${rollout.createdBy}`,
          Selection: JSON.stringify(rollout.selector),
          Input: JSON.stringify(rollout.input),
        }}
      />
      <h2>Devices</h2>
      <Table
        label="Devices in the order in which they start"
        head={['', 'Device', 'State', 'Job', 'Started', 'Ended', 'Error']}
        rows={devices.map(({ place, device, state, job, startedAt, endedAt, error }) => [
          place + 1,
          <a href={`#/device/${encodeURIComponent(device)}`}>{device}</a>,
          state,
          job === null ? '' : isOperator ? <a href={`#/job/${job}`}>{job}</a> : job,
          startedAt === null ? '' : clockTime(startedAt),
          endedAt === null ? '' : clockTime(endedAt),
          error ? `${error.code}: ${error.message}` : '',
        ])}
      />
    </section>
  )
}
