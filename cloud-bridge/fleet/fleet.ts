import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Problem, problemsOf } from '../../core/policy/fleet/problems.ts'
import type { DeviceIdentity } from '../../core/wire/protocol/http/admin.ts'
import type { Device } from '../../core/wire/protocol/http/devices.ts'
import type { JobSummary } from '../../core/wire/protocol/http/jobs.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { DeviceLabels, LabelSet } from './labels.ts'
import type { DeviceRecord, Registry } from './registry.ts'

export interface FleetOptions {
  readonly registry: Registry
  readonly labels: DeviceLabels
  readonly identities: { device(id: string): DeviceIdentity | undefined; devices(): DeviceIdentity[] }
  readonly jobs: Pick<JobStore, 'loads' | 'heldBy'>
  /** Address of another device that wants to connect under this id; undefined: there is none. */
  readonly otherAt?: (device: string) => string | undefined
  /** Names of its small models that write no expansions. */
  readonly rubbishOf?: (device: string) => readonly string[]
  /** UTC ms. */
  readonly wallMs: () => number
}

/** Devices that are described in one turn of the event loop. */
const devicesPerTurn = 500

/** The devices of the fleet: registry, identity, labels and jobs together. */
export interface Fleet {
  devices(): Device[]
  /** What `make` makes of each device: a few at a time, so that a large fleet holds up nothing else for long. */
  devicesAs<T>(make: (device: Device) => T): Promise<T[]>
  /** Undefined: the device has published no state and is not enrolled. */
  device(id: string): Device | undefined
  /** Whether `device` would find it, at little cost. */
  has(id: string): boolean
  jobsOf(id: string): JobSummary[]
}

export function createFleet(options: FleetOptions): Fleet {
  const { registry, labels, identities, jobs, otherAt = () => undefined, rubbishOf = () => [], wallMs } = options

  function join(
    id: string,
    record: DeviceRecord | undefined,
    identity: DeviceIdentity | undefined,
    ownLabels: LabelSet,
    load: number,
  ): Device {
    const {
      state = null,
      birth = null,
      lastSeen = null,
      agent = null,
      modelId = null,
      computing = null,
      telemetry = null,
    } = record ?? {}
    const silentS = lastSeen === null ? null : Math.max(0, (wallMs() - Date.parse(lastSeen)) / 1_000)
    const seenS = silentS === null ? null : Math.round(Math.min(silentS, telemetry?.ageS ?? silentS))
    return {
      id,
      state,
      birth,
      lastSeen,
      seenS,
      agent,
      modelId,
      computing,
      labels: ownLabels,
      jobs: load,
      problems: problemsAt(identity?.status, () => [
        ...conflictsOf(otherAt(id), identity),
        ...rubbishOf(id).map((model): Problem => ({ kind: 'small-model', detail: `${model} writes no expansions` })),
        ...problemsOf(state, telemetry),
      ]),
      identity: identity ? enrolment(identity) : null,
      telemetry,
    }
  }
  /** All ids in order, and how each device is described; both as of now, except what the registry knows. */
  function all() {
    const enrolled = new Map(identities.devices().map((identity) => [identity.device, identity]))
    const [allLabels, loads] = [labels.all(), jobs.loads.all()]
    return {
      ids: [...new Set([...registry.ids(), ...enrolled.keys()])].sort(),
      describe: (id: string) => join(id, registry.device(id), enrolled.get(id), allLabels.get(id) ?? {}, loads.get(id) ?? 0),
    }
  }

  return {
    devices() {
      const { ids, describe } = all()
      return ids.map(describe)
    },
    async devicesAs(make) {
      const { ids, describe } = all()
      const made: ReturnType<typeof make>[] = []
      for (const [at, id] of ids.entries()) {
        if (at % devicesPerTurn === devicesPerTurn - 1) await nextTurn()
        made.push(make(describe(id)))
      }
      return made
    },
    device(id) {
      const [record, identity] = [registry.device(id), identities.device(id)]
      return record || identity ? join(id, record, identity, labels.of(id), jobs.heldBy(id).length) : undefined
    },
    has: (id) => registry.isRegistered(id) || identities.device(id) !== undefined,
    jobsOf: jobs.heldBy,
  }
}

/** Another machine wants to be this device: under its id, or with a copy of its key. */
function conflictsOf(address: string | undefined, identity: DeviceIdentity | undefined): Problem[] {
  const others = [
    ...(address === undefined ? [] : [`another device at ${address}`]),
    ...(identity?.clone == null ? [] : ['its key on another machine']),
  ]
  return others.map((detail) => ({ kind: 'id-conflict', detail }))
}

/** A revoked device needs no attention, and a pending one an approval first. */
function problemsAt(status: DeviceIdentity['status'] | undefined, others: () => Problem[]): Problem[] {
  if (status === 'revoked') return []
  return status === 'pending' ? [{ kind: 'pending', detail: '' }] : others()
}

const enrolment = ({ group, status, enrolledAt, keyExpiresAt, hardware, clone }: DeviceIdentity) => ({
  group,
  status,
  enrolledAt,
  keyExpiresAt,
  hardware,
  clone,
})
