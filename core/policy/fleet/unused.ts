import { compareVersions } from '../../kit/base/version-range.ts'
import type { ShownComputing } from '../../wire/protocol/computing.ts'
import type { Device, FleetStatus } from '../../wire/protocol/http/devices.ts'
import { gpuFix } from './bridge-problems.ts'

/** Why the bridge does not use a device, or uses it less than it could. */
export interface UnusedReason {
  readonly kind: UnusedKind
  /** Whether the device gets nothing to do; else it gets less, or does it worse. */
  readonly blocks: boolean
  readonly detail: string
  /** The command that fixes it. */
  readonly fix: string
  /** Where to run it. */
  readonly at: 'device' | 'operator'
}

export type UnusedKind =
  | 'enrolment'
  | 'key'
  | 'id-conflict'
  | 'drain'
  | 'link'
  | 'version'
  | 'bundle'
  | 'gpu'
  | 'small-model'
  | 'clock'
  | 'battery'
  | 'heat'
  | 'disk'
  | 'memory'
  | 'lag'

/** What a device is compared with. */
export interface BridgeFacts {
  readonly version: string
  /** Of the bundles that it serves. */
  readonly modelIds: readonly string[]
  /** UTC ms. */
  readonly wallMs: number
}

/** @param status a bridge of an earlier release names one bundle */
export const bridgeFacts = ({ version, modelId, modelIds }: FleetFacts, wallMs: number): BridgeFacts => ({
  version,
  modelIds: modelIds.length > 0 || modelId === null ? modelIds : [modelId],
  wallMs,
})
type FleetFacts = Pick<FleetStatus, 'version' | 'modelId' | 'modelIds'>

/** Telemetry is sent every 10 s, or seldom by a device whose owner wants so. */
const maxSilenceS = 300
/** A clock that is wrong by more makes the times of samples and certificates useless. */
const maxClockErrorS = 300
const maxRttMs = 1_000
/** Least speed of a link in either direction. */
const minBytesPerS = 20_000

/** Every reason, the most important first; none: the device is used. */
export function whyUnused(device: Device, bridge: BridgeFacts): UnusedReason[] {
  const barred = barredReason(device, bridge.wallMs)
  if (barred) return [barred]
  const away = awayReason(device)
  if (away) return [...conflictsOf(device), away]
  return [
    ...conflictsOf(device),
    ...stateReasons(device),
    ...versionReasons(device, bridge),
    ...bundleReasons(device, bridge),
    ...gpuReasons(device),
    ...smallModelReasons(device),
    ...sampleReasons(device, bridge),
  ]
}

const reason =
  (blocks: boolean, at: UnusedReason['at']) =>
  (kind: UnusedKind, detail: string, fix: string): UnusedReason => ({ kind, blocks, detail, fix, at })
const blocked = reason(true, 'operator')
const blockedAtDevice = reason(true, 'device')
const slowed = reason(false, 'operator')
const slowedAtDevice = reason(false, 'device')

/** The device may not connect. */
function barredReason({ id, identity }: Device, wallMs: number): UnusedReason | undefined {
  if (identity?.status === 'revoked')
    return blocked('enrolment', 'revoked', `brim device remove ${id}, then enrol it with a new token`)
  if (identity?.status === 'pending') return blocked('enrolment', 'waits for approval', `brim device approve ${id}`)
  const expiresAt = identity?.keyExpiresAt ?? null
  if (expiresAt === null || Date.parse(expiresAt) > wallMs) return undefined
  return blocked('key', `its key expired at ${expiresAt}`, `brim device approve ${id}`)
}

const conflictsOf = ({ problems }: Device): UnusedReason[] =>
  problems
    .filter(({ kind }) => kind === 'id-conflict')
    .map(({ detail }) => blockedAtDevice('id-conflict', detail, 'brim agent reset-identity (on the copy), then enrol it'))

/** The device is not there. */
function awayReason({ id, state, seenS }: Device): UnusedReason | undefined {
  const since = seenS === null ? '' : ` for ${seenS} s`
  if (state === null) return blockedAtDevice('link', 'has never connected', `brim agent run --id ${id}`)
  if (state === 'lost') return blockedAtDevice('link', `lost${since}`, 'systemctl status brim-agent; brim doctor')
  if (state === 'disconnected') return blockedAtDevice('link', `shut down${since}`, 'systemctl start brim-agent')
  return undefined
}

function stateReasons({ id, state }: Device): UnusedReason[] {
  if (state === 'draining') return [blocked('drain', 'takes no new jobs', `brim device undrain ${id}`)]
  if (state === 'init') return [blocked('link', 'starts', `brim device logs ${id} --follow`)]
  return []
}

/** One minor version apart, agent and bridge work together. */
function versionReasons({ id, agent }: Device, { version }: BridgeFacts): UnusedReason[] {
  if (agent === null || agent === version) return []
  const [own, bridges] = [agent, version].map((text) => /^(\d+)\.(\d+)\./.exec(text))
  if (!own || !bridges || (own[1] === bridges[1] && Math.abs(Number(own[2]) - Number(bridges[2])) <= 1)) return []
  const isOlder = (compareVersions(agent, version) ?? 0) < 0
  const fix = isOlder
    ? `brim rollout create software --archive <archive of ${version}> --device ${id}`
    : `update the bridge to ${agent}`
  return [slowed('version', `agent ${agent}, bridge ${version}: more than one minor release apart`, fix)]
}

function bundleReasons({ id, modelId }: Device, bridge: BridgeFacts): UnusedReason[] {
  const [first] = bridge.modelIds
  if (first === undefined || (modelId !== null && bridge.modelIds.includes(modelId))) return []
  const detail = modelId === null ? 'has no bundle' : `has ${modelId}, the bridge serves ${bridge.modelIds.join(' and ')}`
  return [blocked('bundle', detail, `brim job submit bundle.install --model ${first} --activate --device ${id}`)]
}

const failedOn = (model: string, shown: ShownComputing | undefined): string[] =>
  shown?.failed === true ? [`the CPU computes its ${model}: ${shown.reason}`] : []

/** A device has a GPU that could compute, and does not. */
function gpuReasons({ computing }: Device): UnusedReason[] {
  const failed = [...failedOn('split model', computing?.llm), ...failedOn('small model', computing?.slm)]
  return failed.map((detail) => slowedAtDevice('gpu', detail, gpuFix))
}

/** It rests: the LLM writes what it would expand. */
const smallModelReasons = ({ problems }: Device): UnusedReason[] =>
  problems
    .filter(({ kind }) => kind === 'small-model')
    .map(({ detail }) => slowedAtDevice('small-model', detail, 'brim agent run --slm <another bundle>, or build this one again'))

function sampleReasons(device: Device, { wallMs }: BridgeFacts): UnusedReason[] {
  const { id, telemetry, problems } = device
  const logs = `brim device logs ${id}`
  if (telemetry === null) return [slowed('lag', 'no telemetry since the start of the bridge', logs)]
  const { at, ageS, clockIsSet, link, jobs, spool } = telemetry
  const reasons: UnusedReason[] = []
  const clockErrorS = Math.round((Date.parse(at) - (wallMs - ageS * 1_000)) / 1_000)
  if (clockIsSet === false || Math.abs(clockErrorS) > maxClockErrorS) {
    const detail = clockIsSet === false ? 'is not set' : `is ${Math.abs(clockErrorS)} s ${clockErrorS > 0 ? 'fast' : 'slow'}`
    reasons.push(slowedAtDevice('clock', detail, 'timedatectl set-ntp true'))
  }
  if (link === null) reasons.push(slowed('link', 'the data plane is not connected: no private answers', logs))
  const slowest = Math.min(link?.upBytesPerS ?? Number.POSITIVE_INFINITY, link?.downBytesPerS ?? Number.POSITIVE_INFINITY)
  if ((link?.rttMs ?? 0) > maxRttMs || slowest < minBytesPerS) {
    const rate = Number.isFinite(slowest) ? `, ${Math.round(slowest)} bytes/s` : ''
    reasons.push(slowed('link', `slow: ${Math.round(link?.rttMs ?? 0)} ms round trip${rate}`, `brim device watch ${id}`))
  }
  for (const { kind, detail } of problems) {
    const known = conditionFixes[kind]
    if (known) reasons.push({ kind: known.kind, blocks: known.blocks, detail, fix: known.fix, at: 'device' })
  }
  if (ageS > maxSilenceS) reasons.push(slowed('lag', `no telemetry for ${Math.round(ageS)} s`, logs))
  if ((jobs?.waiting ?? 0) > 0 && jobs?.running === 0)
    reasons.push(slowed('lag', `${jobs.waiting} jobs wait and none runs`, `brim device show ${id}`))
  if ((spool?.waiting ?? 0) > 0)
    reasons.push(slowed('lag', `${spool?.waiting} samples wait to be sent`, `brim device watch ${id}`))
  return reasons
}

/** Problems of the condition (`problemsOf`) and how to fix them. */
const conditionFixes: Readonly<Record<string, Pick<UnusedReason, 'kind' | 'blocks' | 'fix'>>> = {
  battery: { kind: 'battery', blocks: false, fix: 'plug it in' },
  throttled: { kind: 'heat', blocks: false, fix: 'cool it, or lower its power mode: sudo nvpmodel -q' },
  'disk-full': { kind: 'disk', blocks: true, fix: 'df -h; du -xh --max-depth=2 / | sort -h | tail' },
  disk: { kind: 'disk', blocks: false, fix: 'df -h; du -xh --max-depth=2 / | sort -h | tail' },
  memory: { kind: 'memory', blocks: false, fix: 'ps aux --sort=-rss | head' },
}
