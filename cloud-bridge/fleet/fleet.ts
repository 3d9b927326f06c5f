import { type Problem, problemsOf } from '../../core/policy/fleet/problems.ts'
import type { DeviceIdentity } from '../../core/protocol/http/admin.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import type { JobRecord } from '../queue/job-reader.ts'
import type { LabelSet, Labels } from './labels.ts'
import type { DeviceRecord, Registry } from './registry.ts'

/** One line of `GET /v1/devices`. */
export interface FleetDevice extends Omit<DeviceRecord, 'state' | 'birth' | 'lastSeen'> {
  /** Null: enrolled, but not heard of yet. */
  readonly state: DeviceState['state'] | null
  readonly birth: number | null
  readonly lastSeen: string | null
  /** Since it was last heard of in any way, by this bridge's clock. */
  readonly seenS: number | null
  readonly labels: LabelSet
  /** Jobs that it has. */
  readonly jobs: number
  readonly problems: readonly Problem[]
  /** Null: it has not enrolled here. */
  readonly identity: Pick<DeviceIdentity, 'group' | 'status' | 'enrolledAt' | 'hardware' | 'clone'> | null
}

export interface FleetOptions {
  readonly registry: Registry
  readonly labels: Labels
  readonly identities: { device(id: string): DeviceIdentity | undefined; devices(): DeviceIdentity[] }
  readonly jobs: { loads(): ReadonlyMap<string, number>; heldBy(device: string): JobRecord[] }
  /** UTC ms. */
  readonly wallMs: () => number
}

/** All that is known of devices, put together from who knows it. */
export interface Fleet {
  devices(): FleetDevice[]
  /** Undefined: neither heard of nor enrolled. */
  device(id: string): FleetDevice | undefined
  jobsOf(id: string): JobRecord[]
}

export function createFleet({ registry, labels, identities, jobs, wallMs }: FleetOptions): Fleet {
  function join(
    id: string,
    record: DeviceRecord | undefined,
    identity: DeviceIdentity | undefined,
    named: LabelSet,
    load: number,
  ): FleetDevice {
    const { state = null, birth = null, lastSeen = null, agent = null, modelId = null, telemetry = null } = record ?? {}
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
      labels: named,
      jobs: load,
      // Nobody looks for who was sent away.
      problems: identity?.status === 'revoked' ? [] : problemsOf(state, telemetry),
      identity: identity ? enrolment(identity) : null,
      telemetry,
    }
  }
  return {
    devices() {
      const records = new Map(registry.devices().map((record) => [record.id, record]))
      const enrolled = new Map(identities.devices().map((identity) => [identity.device, identity]))
      const [named, loads] = [labels.all(), jobs.loads()]
      return [...new Set([...records.keys(), ...enrolled.keys()])]
        .sort()
        .map((id) => join(id, records.get(id), enrolled.get(id), named.get(id) ?? {}, loads.get(id) ?? 0))
    },
    device(id) {
      const [record, identity] = [registry.device(id), identities.device(id)]
      return record || identity ? join(id, record, identity, labels.of(id), jobs.heldBy(id).length) : undefined
    },
    jobsOf: jobs.heldBy,
  }
}

const enrolment = ({ group, status, enrolledAt, hardware, clone }: DeviceIdentity) => ({
  group,
  status,
  enrolledAt,
  hardware,
  clone,
})
