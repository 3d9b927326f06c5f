import { visibleLine } from '../../../core/base/visible-text.ts'
import { defineCommand } from '../../../core/cli/command.ts'
import { type DeviceDetails, deviceOperations } from '../../../core/protocol/http/devices.ts'
import { bridgeClient, bridgeOptions } from '../bridge-access.ts'
import { age, bytes, compact } from '../figures.ts'
import { labelsText } from '../labels.ts'
import { logText } from './logs.ts'
import { cloneText, deviceOption } from './remote-command.ts'

export const command = defineCommand({
  examples: [
    ['brim device show jetson-01', 'as text'],
    ['brim device show jetson-01 --json | jq .telemetry.power', 'one figure, for programs'],
  ],
  options: { device: deviceOption, ...bridgeOptions },
  async run({ device, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(deviceOperations.show, { params: { id: device } })
    if (json) return io.out(JSON.stringify(raw))
    // A newer bridge may send further sections.
    const { telemetry } = raw as { readonly telemetry: Readonly<Record<string, unknown>> | null }
    io.out(linesOf(value, telemetry).map(visibleLine).join('\n'))
  },
})

function linesOf(device: DeviceDetails, telemetry: Readonly<Record<string, unknown>> | null): string[] {
  const { id, state, birth, lastSeen, seenS, agent, modelId, labels, problems, identity } = device
  const enrolment = identity
    ? `${identity.status}, group ${identity.group}, enrolled ${identity.enrolledAt}`
    : 'not enrolled here'
  const { jobsUnderWay, commands, log } = device
  return [
    id,
    ...rows({
      state: state === null ? 'never connected' : `${state}, last message ${age(seenS)} ago (state since ${lastSeen})`,
      birth,
      agent,
      model: modelId,
      labels: labelsText(labels) || 'none',
      identity: enrolment,
      ...(identity ? { 'key expires': identity.keyExpiresAt ?? 'never' } : {}),
      machine: identity?.hardware,
      ...(identity?.clone ? { clone: cloneText(identity.clone) } : {}),
      problems: problems.map(({ kind, detail }) => (detail === '' ? kind : `${kind} (${detail})`)).join(', ') || 'none',
    }),
    ...(telemetry
      ? sectionsOf(telemetry, device.telemetry?.errors)
      : ['', 'condition', '  unknown: no telemetry received since the bridge started']),
    ...listed('jobs under way', jobsUnderWay, (job) => `${job.id}  ${job.kind}  ${job.state}  attempt ${job.attempt}`),
    ...listed(
      'commands, the newest first',
      commands,
      ({ at, wish, state, actor, reason }) => `${at}  ${wish.type}  ${state}  by ${actor}${reason == null ? '' : `: ${reason}`}`,
    ),
    ...listed('log, warnings and errors', log, logText),
  ]
}

function listed<T>(title: string, all: readonly T[], text: (one: T) => string): string[] {
  return ['', title, ...(all.length === 0 ? ['  none'] : all.map((one) => `  ${text(one)}`))]
}

const minWidth = 20
function rows(values: Record<string, unknown>): string[] {
  const width = Math.max(minWidth, ...Object.keys(values).map((name) => name.length))
  return Object.entries(values).map(([name, value]) => `  ${name.padEnd(width)} ${plain(name, value)}`)
}

/** The order in which sections are shown. */
const order = [
  'device',
  'load',
  'power',
  'temperatures',
  'throttling',
  'battery',
  'fan',
  'memory',
  'disk',
  'link',
  'network',
  'speed',
  'answers',
]
/** Shown elsewhere. */
const shownElsewhere = ['ageS', 'at', 'birth', 'errors']

/** Every section of the telemetry, with readable units. */
function sectionsOf(
  all: Readonly<Record<string, unknown>>,
  errors: NonNullable<DeviceDetails['telemetry']>['errors'] = [],
): string[] {
  const names = [...order, ...Object.keys(all).filter((name) => !order.includes(name) && !shownElsewhere.includes(name))]
  // Figures outside any section.
  const loose = Object.fromEntries(names.flatMap((name) => (isFigure(all[name]) ? [[name, all[name]]] : [])))
  return [
    ...(Object.keys(loose).length === 0 ? [] : ['', 'telemetry', ...rows(loose)]),
    ...names.flatMap((name) => {
      const section = all[name]
      if (section === undefined || isFigure(section)) return []
      const figures = rows(flat((section ?? {}) as Record<string, unknown>))
      // The device has no such part, or no connection.
      return ['', name, ...(figures.length === 0 ? ['  none'] : figures)]
    }),
    ...listed('errors since the agent started, the newest first', errors, ({ code, at, count }) => `${at}  ${code}  ${count} ×`),
  ]
}

const isFigure = (value: unknown) => value !== undefined && value !== null && typeof value !== 'object'

/** Figures of a section; nested ones are prefixed with the name of their group. */
function flat(section: Record<string, unknown>, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(section).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(flat(value as Record<string, unknown>, `${prefix}${name} `))
        : [[`${prefix}${name}`, value]],
    ),
  )
}

/** Text by the unit at the end of a figure's name, or of the record that holds it. */
const unitOf: readonly (readonly [RegExp, (value: number) => string])[] = [
  [/BytesPerS\b/, (value) => `${compact(value)}B/s`],
  [/Bytes\b/, bytes],
  [/Percent\b/, (value) => `${Math.round(value)} %`],
  [/TokensPerS\b|tokensPerS\b/, (value) => `${compact(value)} tokens/s`],
  [/MbitPerS\b/, (value) => `${value} Mbit/s`],
  [/[a-z]MHz\b/, (value) => `${value} MHz`],
  [/uptimeS\b/, age],
  [/[a-z]Ms\b/, (value) => `${Number(value.toPrecision(3))} ms`],
  [/jPerToken\b/, (value) => `${Number(value.toPrecision(3))} J/token`],
  [/[a-z]C\b/, (value) => `${value.toFixed(1)} °C`],
  [/[a-z]W\b/, (value) => `${value.toFixed(1)} W`],
]

function plain(name: string, value: unknown): string {
  if (value === null || value === undefined) return 'unknown'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ')
  if (typeof value !== 'number') return String(value)
  const [, text] = unitOf.find(([unit]) => unit.test(name)) ?? []
  return text ? text(value) : String(value)
}
