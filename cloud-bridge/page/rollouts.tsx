import type { Rollout, RolloutDevice } from '../../core/wire/protocol/http/rollouts.ts'
import { usePolled, useSession } from './model.ts'
import { Actions, clockTime, Notice, Stale, StillReading, Table } from './parts.tsx'

/** In the document; the API has the rest. */
const shownDevices = 1_000

/** All of them, or one with its devices. */
export function RolloutsPage({ id }: { readonly id?: string }) {
  const { api, isOperator } = useSession()
  const { value, problem, again } = usePolled(
    async (signal) => {
      if (id === undefined) return { ...(await api.get<{ rollouts: Rollout[] }>('/v1/rollouts', signal)), devices: [] }
      const path = `/v1/rollouts/${encodeURIComponent(id)}`
      const rollouts = [await api.get<Rollout>(path, signal)]
      return { rollouts, ...(await api.get<{ devices: RolloutDevice[] }>(`${path}/devices?limit=${shownDevices}`, signal)) }
    },
    2_000,
    [id],
  )
  if (!value) return <StillReading what="rollouts" problem={problem} />
  const { rollouts, devices } = value
  return (
    <section class="page">
      {id !== undefined && <a href="#/rollouts">← Rollouts</a>}
      <h1>{id ?? 'Rollouts'}</h1>
      <Stale problem={problem} />
      <Notice text={rollouts.length === 0 ? 'none yet: “brim rollout create” begins one' : ''} />
      {rollouts.map((rollout) => (
        <article class="card" key={rollout.id}>
          <h2>
            <a href={`#/rollout/${rollout.id}`}>{rollout.id}</a> <span class="dim">{rollout.kind}</span>
          </h2>
          <Progress rollout={rollout} again={again} />
          <p class="figures">
            begun {clockTime(rollout.createdAt)} by {rollout.createdBy}: {JSON.stringify(rollout.input)}
          </p>
        </article>
      ))}
      {id !== undefined && (
        <Table
          label="Devices in the order in which they start"
          head={['', 'Device', 'State', 'Job', 'Started', 'Ended', 'Error']}
          rows={devices.map(({ place, device, state, job, startedAt, endedAt, error }) => [
            place + 1,
            <a href={`#/device/${device}`}>{device}</a>,
            state,
            isOperator && job !== null ? <a href={`#/job/${job}`}>{job}</a> : job,
            startedAt && clockTime(startedAt),
            endedAt && clockTime(endedAt),
            error && `${error.code}: ${error.message}`,
          ])}
        />
      )}
    </section>
  )
}

/** In the order in which a bar shows them. */
const states = ['succeeded', 'failed', 'canceled', 'started', 'waiting', 'skipped'] as const

interface ProgressProps {
  readonly rollout: Rollout
  /** Reads it again. */
  readonly again: () => void
}

function Progress({ rollout: { id, state, reason, devices, ratePerMinute }, again }: ProgressProps) {
  const { api, isOperator } = useSession()
  const text = states.flatMap((name) => (devices[name] === 0 ? [] : [`${devices[name]} ${name}`])).join(', ')
  const action = (verb: string, title: string, confirm?: string) => ({
    text: title,
    ...(confirm !== undefined && { confirm }),
    audit: `rollout.${verb}`,
    run: () => api.post(`/v1/rollouts/${encodeURIComponent(id)}/${verb}`).finally(again),
  })
  const isOpen = state === 'running' || state === 'paused'
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
      {isOperator && (
        <Actions
          of={[
            state === 'running' && action('pause', 'Pause'),
            state === 'paused' && action('resume', 'Resume'),
            isOpen && action('abort', 'Abort', 'Abort, and cancel its jobs'),
            !isOpen && devices.failed > 0 && action('retry', 'Retry the failed', `Begin another one for ${devices.failed}`),
          ]}
        />
      )}
    </>
  )
}
