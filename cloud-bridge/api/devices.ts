import type { Clock } from '../../core/kit/base/clock.ts'
import { nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { fleetRowOf } from '../../core/policy/fleet/fleet-row.ts'
import { isConnected } from '../../core/policy/fleet/presence.ts'
import { bridgeFacts } from '../../core/policy/fleet/unused.ts'
import {
  type Device,
  type DeviceSmallModel,
  deviceOperations,
  type FleetEvent,
  type FleetRowEvent,
  type FleetStatus,
  fleetOperations,
} from '../../core/wire/protocol/http/devices.ts'
import { maxLabels } from '../../core/wire/protocol/http/labels.ts'
import type { OpenFleet } from '../fleet/open-fleet.ts'
import { batchOf, type EventSource } from '../http/event-streams.ts'
import type { RouteRequest, Routes } from '../http/router.ts'
import type { Actor } from '../identity/audit-log.ts'
import type { Caller } from '../identity/authorizer.ts'

/** Of one device, in its whole description. */
const shownCommands = 10
const shownLines = 10
/** Of a stream; more would be in memory at once where a reader of thousands of devices is slow. */
const maxEventsPerBatch = 64
/** In the list of one device's commands. */
const listedCommands = 100

type Change = Pick<FleetEvent, 'type' | 'device'>

export interface DeviceRoutesOptions extends Pick<OpenFleet, 'fleet' | 'labels' | 'commands' | 'logs' | 'history' | 'feed'> {
  readonly smallModelsOf: (device: string) => DeviceSmallModel[]
  /** Deletes what is known of a device. @returns the number of its open jobs, which are canceled */
  readonly remove: (device: string, actor: Actor) => number
  /** The bridge's own part of the fleet status. */
  readonly describe: () => Omit<FleetStatus, 'devices'>
  readonly clock: Clock
}

/** `/v1/fleet…` and `/v1/devices…`: state, labels, commands and logs; as JSON and as streams of changes. */
export function deviceRoutes(options: DeviceRoutesOptions): Routes {
  const { fleet, labels, commands, logs, history, feed, describe, clock } = options

  function existing(id: string): Device {
    const device = fleet.device(id)
    if (device) return device
    throw new BrimError('DEVICE_UNKNOWN', `this bridge knows no device "${id}"`, { hint: '"brim device list" lists them' })
  }

  const allFor = (caller: Caller) => fleet.devices().map((device) => shownTo(caller, device))

  /**
   * The state now, then every change; of one device, or of all.
   * @param keyOf changes not yet sent with the same key are sent as one, the latest
   * @param eventsOf a batch of changes
   */
  function changesOf(
    only: string | undefined,
    keyOf: (change: Change) => string,
    eventsOf: (changes: readonly Change[]) => readonly unknown[],
  ): EventSource {
    const first = only === undefined ? fleet.devices().map(({ id }) => id) : [existing(only).id]
    const due = new Map<string, Change>()
    const add = (change: Change) => due.set(keyOf(change), change)
    for (const device of first) add({ type: 'device', device })
    return {
      next() {
        const taken = [...due.entries()].slice(0, maxEventsPerBatch)
        for (const [key] of taken) due.delete(key)
        return { ...batchOf(eventsOf(taken.map(([, change]) => change))), after: due.size > 0 ? 'more' : 'wait' }
      },
      subscribe: (wake) =>
        feed.subscribe((device, type) => {
          if (type === 'log') return
          add({ type, device })
          wake()
        }, only),
    }
  }

  /** Of each device each kind of change once, however often it came. */
  const eventsFor = (caller: Caller, only?: string) =>
    changesOf(
      only,
      ({ type, device }) => `${type} ${device}`,
      (changes) => changes.map((change) => eventOf(change, caller)),
    )

  /** Of each device that changes one row, however much of it has changed. */
  function rowsOfAll(): EventSource {
    const status = describe()
    return changesOf(
      undefined,
      ({ device }) => device,
      (changes) => {
        const bridge = bridgeFacts(status, Date.now())
        return changes.map(({ device }): FleetRowEvent => {
          const now = fleet.device(device)
          return { device, row: now ? fleetRowOf(now, bridge) : null }
        })
      },
    )
  }

  function eventOf({ type, device }: Change, caller: Caller) {
    const command = type === 'commands' ? { command: commands.of(device, 1)[0] } : {}
    const now = fleet.device(device)
    return { type, device, at: nowIso(), now: now ? shownTo(caller, now) : null, ...command }
  }

  function log({ params: { id }, query: { level, lines }, acceptsEvents, events }: RouteRequest<typeof deviceOperations.log>) {
    existing(id)
    const past = logs.of(id, level, lines)
    if (!acceptsEvents) return { lines: past }
    let sent = logs.of(id, 'debug', 1).at(-1)?.n ?? 0
    let isFirst = true
    return events({
      next() {
        const due = isFirst ? past : logs.of(id, level, Number.POSITIVE_INFINITY, sent)
        isFirst = false
        sent = Math.max(sent, due.at(-1)?.n ?? 0)
        return batchOf(due)
      },
      subscribe: (wake) =>
        feed.subscribe((_device, change) => {
          if (change === 'log') wake()
        }, id),
    })
  }

  function label({ params: { id }, body, caller }: RouteRequest<typeof deviceOperations.label>) {
    existing(id)
    caller.auditAs('device.label', id, body)
    const now = labels.change(id, body)
    if (!now) throw invalid(`a device has at most ${maxLabels} labels`)
    feed.publish(id, 'labels')
    return { id, labels: now }
  }

  function remove({ params: { id }, caller }: RouteRequest<typeof deviceOperations.remove>) {
    const { state, identity } = existing(id)
    caller.auditAs('device.remove', id)
    if (identity !== null && caller.key?.role !== 'admin') throw onlyForAdmins(id)
    if (state !== null && isConnected(state))
      throw new BrimError('REQUEST_INVALID', `device "${id}" is connected: it would be known again at its next message`, {
        hint: `stop its agent first; or, where devices are enrolled, "brim device revoke ${id}"`,
      })
    const canceledJobs = options.remove(id, caller.actor)
    caller.auditedByStore()
    return { id, canceledJobs }
  }

  function command({ params: { id }, body: { expiresS, ...action }, caller }: RouteRequest<typeof deviceOperations.command>) {
    existing(id)
    const record = commands.send(id, action, caller.actor.who, expiresS)
    caller.auditAs(`device.${action.type}`, id, { command: record.id, ...action, expiresAt: record.expiresAt })
    return record
  }

  /** Responds once the command has ended, or after `waitS`. */
  async function showCommand({ params, query: { waitS }, closed }: RouteRequest<typeof deviceOperations.showCommand>) {
    const find = () => {
      const found = commands.find(params.command)
      if (found?.device === params.id) return found
      throw invalid(`device "${params.id}" was sent no command "${params.command}"`)
    }
    if (find().state !== 'SENT' || waitS === 0) return find()
    const ended = new AbortController()
    const unsubscribe = feed.subscribe(() => {
      if (find().state !== 'SENT') ended.abort()
    }, params.id)
    await clock.sleep(waitS * 1_000, AbortSignal.any([ended.signal, closed])).catch(() => {})
    unsubscribe()
    return find()
  }

  return (router) => {
    router.serve(fleetOperations.status, ({ caller }) => ({ ...describe(), devices: allFor(caller) }))
    router.serve(fleetOperations.summary, async () => {
      const status = describe()
      const bridge = bridgeFacts(status, Date.now())
      return { ...status, devices: await fleet.devicesAs((device) => fleetRowOf(device, bridge)) }
    })
    router.serve(fleetOperations.events, ({ events, caller }) => events(eventsFor(caller)))
    router.serve(fleetOperations.rows, ({ events }) => events(rowsOfAll()))
    router.serve(deviceOperations.list, ({ caller }) => ({ devices: allFor(caller) }))
    router.serve(deviceOperations.show, ({ params: { id }, caller }) => ({
      ...shownTo(caller, existing(id)),
      jobsUnderWay: fleet.jobsOf(id),
      commands: commands.of(id, shownCommands),
      log: logs.of(id, 'warn', shownLines),
      smallModels: options.smallModelsOf(id),
    }))
    router.serve(deviceOperations.events, ({ params: { id }, events, caller }) => events(eventsFor(caller, id)))
    router.serve(deviceOperations.log, log)
    router.serve(deviceOperations.telemetry, ({ params: { id }, query: { since, limit } }) => {
      existing(id)
      const sinceMs = since === undefined ? undefined : Date.parse(since)
      const { samples, more, nextMs } = history.of(id, { sinceMs, limit })
      return { device: id, samples, more, next: nextMs === null ? null : new Date(nextMs).toISOString() }
    })
    router.serve(deviceOperations.label, label)
    router.serve(deviceOperations.remove, remove)
    router.serve(deviceOperations.command, command)
    router.serve(deviceOperations.commands, ({ params: { id } }) => {
      existing(id)
      return { commands: commands.of(id, listedCommands) }
    })
    router.serve(deviceOperations.showCommand, showCommand)
  }
}

/** With the serial number of the machine goes what protects a stolen key, so viewers do not see it. */
const shownTo = ({ key }: Caller, device: Device): Device =>
  device.identity === null || key?.role !== 'viewer'
    ? device
    : { ...device, identity: { ...device.identity, hardware: null, clone: null } }

const onlyForAdmins = (id: string) =>
  new BrimError('FORBIDDEN', `device "${id}" is enrolled: only the key of an admin removes it`, {
    hint: 'brim login with such a key; at the bridge, "brim bridge key create --role admin" creates one',
  })

const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: 'brim device --help has examples' })
