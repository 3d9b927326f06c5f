import { z } from 'zod'
import { CommandAction, DeviceLog, logLevels } from '../commands.ts'
import { DeviceComputing, ShownComputing } from '../computing.ts'
import { DeviceTelemetry, deviceStates } from '../messages.ts'
import { SmallModelProfile } from '../profile.ts'
import { JobSummary } from './jobs.ts'
import { Labels, LabelsToSet, labelKey, maxLabels } from './labels.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

const at = z.iso.datetime()
const count = z.int().min(0)

export const LabelChange = z.strictObject({
  set: LabelsToSet.default({}),
  unset: z.array(labelKey).max(maxLabels).default([]),
})
export type LabelChange = z.infer<typeof LabelChange>

/** Latest telemetry that the bridge has received since its start. */
export const LatestTelemetry = DeviceTelemetry.omit({ v: true, seq: true, replayed: true }).extend({
  ageS: z.number().min(0).describe("Since it was received, by the bridge's clock."),
})
export type LatestTelemetry = z.infer<typeof LatestTelemetry>

/** One telemetry sample of the stored history. */
export const TelemetrySample = DeviceTelemetry.omit({ v: true, seq: true }).extend({
  heardAt: at.describe("When the bridge received it, by the bridge's clock."),
})
export type TelemetrySample = z.infer<typeof TelemetrySample>

export const Device = z.object({
  id: z.string(),
  state: openEnum(deviceStates).nullable().describe('Null: enrolled, but never connected.'),
  birth: z.int().min(1).nullable(),
  lastSeen: at.nullable().describe("Last change of state, or stored heartbeat, by the bridge's clock."),
  seenS: count.nullable().describe('Seconds since its last message of any kind.'),
  agent: z.string().nullable().describe('Version of the agent.'),
  modelId: z.string().nullable(),
  computing: DeviceComputing.nullable().default(null).describe('What computes its models, and why; null: not announced.'),
  labels: Labels,
  jobs: count.describe('Jobs that the device holds.'),
  problems: z
    .array(z.object({ kind: z.string(), detail: z.string() }))
    .describe(
      'Worst first: `lost`, `pending` (waits for approval), `id-conflict` (another device uses its id), `disk-full`, `throttled`, `battery`, `disk`, `memory`, `small-model` (its model writes no expansions, and rests), `errors`; a later release may add kinds.',
    ),
  identity: z
    .object({
      group: z.string(),
      status: openEnum(['pending', 'approved', 'revoked']),
      enrolledAt: at,
      keyExpiresAt: at.nullable().default(null).describe('Null: its key does not expire.'),
      hardware: z
        .string()
        .nullable()
        .describe('Machine that its key is bound to; null for viewers, and before its first connection.'),
      clone: z.string().nullable().describe('Another machine that used its key; null for viewers.'),
    })
    .nullable()
    .describe('Null: not enrolled at this bridge.'),
  telemetry: LatestTelemetry.nullable(),
})
export type Device = z.infer<typeof Device>

export const LogLine = DeviceLog.omit({ v: true }).extend({
  level: openEnum(logLevels),
  n: z.int().min(1).describe('Counts the lines of one device since the start of the bridge.'),
  heardAt: at.describe("When the bridge received it, by the bridge's clock."),
})
export type LogLine = z.infer<typeof LogLine>

/** A remote command and what became of it. */
export const CommandRecord = z.object({
  id: z.string(),
  device: z.string(),
  wish: CommandAction.or(z.looseObject({ type: z.string() })).describe('The command; a later release may add types.'),
  actor: z.string().describe('Operator who sent it.'),
  at,
  expiresAt: at,
  state: openEnum(['SENT', 'DONE', 'REFUSED', 'EXPIRED']),
  endedAt: at.nullable(),
  reason: z.string().nullable().describe('Why it was refused or expired.'),
})
export type CommandRecord = z.infer<typeof CommandRecord>

/** A small model that a device expands sketches with. */
export const DeviceSmallModel = SmallModelProfile.extend({
  measuredAt: at.describe('When the device measured it (`brim job submit profile`).'),
  slowdown: z.number().positive().describe('Time of its expansions since over the measured one, smoothed.'),
  runs: count.describe('Expansions that this has been corrected by.'),
  confidence: z.number().nullable().describe('Mean confidence of its sentences (PICE Eq. 3), on all devices; null: none so far.'),
})
export type DeviceSmallModel = z.infer<typeof DeviceSmallModel>

export const DeviceDetails = Device.extend({
  jobsUnderWay: z.array(JobSummary),
  commands: z.array(CommandRecord).describe('Latest first, at most 10.'),
  log: z.array(LogLine).describe('Latest warnings and errors, at most 10.'),
  smallModels: z.array(DeviceSmallModel).default([]).describe('Small models as profiled at this bridge, ascending by size.'),
})
export type DeviceDetails = z.infer<typeof DeviceDetails>

/** A change of one device. */
export const FleetEvent = z.object({
  type: openEnum(['device', 'state', 'telemetry', 'labels', 'commands']).describe('`device`: the state when the stream began.'),
  device: z.string(),
  at,
  now: Device.nullable(),
  command: CommandRecord.optional().describe("With `commands`: the device's latest command."),
})
export type FleetEvent = z.infer<typeof FleetEvent>

/** What needs attention at the bridge itself. */
export const BridgeProblem = z.object({
  kind: openEnum(['storage-full', 'database', 'damaged-jobs', 'gpu', 'upstream']),
  detail: z.string(),
  fix: z.string().describe('A command or an instruction.'),
})
export type BridgeProblem = z.infer<typeof BridgeProblem>

export const SharedDatabase = z.object({
  primary: z.string().describe('The process that serves the fleet.'),
  nodes: z.array(z.string()).describe('All processes that share the database, the primary included.'),
  loads: z
    .array(
      z.object({
        node: z.string(),
        links: count.describe('Devices connected to it.'),
        sessions: count.describe('Open HAT sessions.'),
        isDraining: z.boolean().describe('It sends its devices away, and does not become the primary.'),
      }),
    )
    .default([])
    .describe('What each of them serves.'),
  failure: z.string().nullable().describe('Why the database does not store; null: it does.'),
})
export type SharedDatabase = z.infer<typeof SharedDatabase>

export const FleetStatus = z.object({
  bridge: z.string(),
  version: z.string(),
  modelId: z.string().nullable().describe('Of its first bundle; null where the bridge serves none.'),
  modelIds: z.array(z.string()).default([]).describe('Of all bundles that it serves.'),
  computing: z.array(ShownComputing).default([]).describe('What computes each of them.'),
  uptimeS: count,
  sessions: count.describe('Open HAT sessions.'),
  kvBytes: count.describe('KV memory of open sessions.'),
  kvBudgetBytes: count,
  jobs: z.object({ queued: count, underWay: count, dead: count }),
  problems: z.array(BridgeProblem).default([]).describe('Of the bridge itself, the most severe first.'),
  database: SharedDatabase.nullable().default(null).describe('Of bridges with --database; null: this one is alone.'),
  devices: z.array(Device).describe('All devices that have ever connected.'),
})
export type FleetStatus = z.infer<typeof FleetStatus>

const figureOrNull = z.number().nullable()

/** A line of `brim fleet status`: a whole `Device` has ten times the size, which tells with thousands of devices. */
export const FleetRow = z.object({
  id: z.string(),
  state: z.string().describe('`state` of the device; `never`, `pending` or `revoked` where that keeps it from connecting.'),
  module: z.string().nullable(),
  seenS: figureOrNull.describe('Seconds since its last message of any kind.'),
  powerW: figureOrNull,
  batteryPercent: figureOrNull,
  hottestC: figureOrNull,
  isThrottled: z.boolean().nullable(),
  cpuPercent: figureOrNull,
  gpuPercent: figureOrNull,
  upBytesPerS: figureOrNull,
  downBytesPerS: figureOrNull,
  jobs: count.describe('Jobs that the device holds.'),
  tokensPerS: figureOrNull.describe('Decode rate of its fastest model.'),
  provider: z.string().nullable().default(null).describe('What computes its split model, else its small one.'),
  model: z.string().nullable().default(null).describe('Name of its split model, else of its small one.'),
  agent: z.string().nullable().default(null).describe('Version of the agent.'),
  labels: Labels,
  problems: Device.shape.problems,
  unusable: z
    .object({ kind: z.string(), detail: z.string() })
    .nullable()
    .default(null)
    .describe('Why the bridge gives it nothing to do, as `brim fleet doctor` says; null: it is used.'),
})
export type FleetRow = z.infer<typeof FleetRow>

/** What has become of one device. */
export const FleetRowEvent = z.object({ device: z.string(), row: FleetRow.nullable().describe('Null: it was deleted.') })
export type FleetRowEvent = z.infer<typeof FleetRowEvent>

export const FleetSummary = FleetStatus.extend({ devices: z.array(FleetRow) })
export type FleetSummary = z.infer<typeof FleetSummary>

/** Body of `POST /v1/devices/:id/commands`: a command and how long it stays valid. */
export const CommandRequest = z.intersection(CommandAction, z.object({ expiresS: z.number().positive().max(86_400).default(30) }))

const maxWaitS = 60

export const fleetOperations = {
  status: get('/v1/fleet', 'read', 'Bridge and devices at a glance', { response: FleetStatus }),
  summary: get('/v1/fleet/summary', 'read', 'As /v1/fleet, with a few figures of each device', { response: FleetSummary }),
  events: get('/v1/fleet/events', 'read', 'State of every device, then every change, as a stream', { event: FleetEvent }),
  rows: get('/v1/fleet/rows', 'read', 'A few figures of every device, then of each one that changes, as a stream', {
    event: FleetRowEvent,
  }),
} satisfies Operations

export const deviceOperations = {
  list: get('/v1/devices', 'read', 'All devices that are enrolled or have ever connected', {
    response: z.object({ devices: z.array(Device) }),
  }),
  show: get('/v1/devices/:id', 'read', 'One device with its jobs, commands and log', { response: DeviceDetails }),
  events: get('/v1/devices/:id/events', 'read', 'State of one device, then every change, as a stream', { event: FleetEvent }),
  log: get('/v1/devices/:id/log', 'read', 'Log lines of one device; as a stream, later lines too', {
    query: z.object({
      level: z.enum(logLevels).default('warn').describe('This level and above.'),
      lines: z.coerce.number().int().min(0).max(500).default(100).describe('Past lines, at most.'),
    }),
    response: z.object({ lines: z.array(LogLine) }),
    event: LogLine,
  }),
  telemetry: get('/v1/devices/:id/telemetry', 'read', 'Stored telemetry of one device, oldest first', {
    query: z.object({
      since: z.iso
        .datetime({ offset: true })
        .optional()
        .describe('Samples measured later than this; absent: the latest samples.'),
      limit: z.coerce.number().int().min(1).max(5_000).default(500),
    }),
    response: z.object({
      device: z.string(),
      samples: z.array(TelemetrySample),
      more: z.boolean().describe('There are samples beyond the limit.'),
      next: at.nullable().describe('`since` of the next page.'),
    }),
  }),
  label: post('/v1/devices/:id/labels', 'operate', 'Set and remove labels of one device', {
    body: LabelChange,
    response: z.object({ id: z.string(), labels: Labels }),
  }),
  remove: post('/v1/devices/:id/remove', 'operate', 'Delete a device that is not connected; an enrolled one needs an admin', {
    response: z.object({ id: z.string(), canceledJobs: count.describe('Open jobs that only this device could run.') }),
  }),
  command: post('/v1/devices/:id/commands', 'operate', 'Send a remote command to one device', {
    body: CommandRequest,
    status: 202,
    response: CommandRecord,
  }),
  commands: get('/v1/devices/:id/commands', 'read', 'Remote commands of one device, latest first, at most 100', {
    response: z.object({ commands: z.array(CommandRecord) }),
  }),
  showCommand: get('/v1/devices/:id/commands/:command', 'read', 'One remote command', {
    query: z.object({
      waitS: z.coerce.number().min(0).max(maxWaitS).default(0).describe('Wait this long for the device to reply, in seconds.'),
    }),
    response: CommandRecord,
  }),
} satisfies Operations
