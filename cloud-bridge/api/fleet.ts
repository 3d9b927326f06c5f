import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { CommandAction, logLevels } from '../../core/protocol/commands.ts'
import type { CommandRecord, Commands } from '../fleet/commands.ts'
import type { DeviceLogs } from '../fleet/device-logs.ts'
import type { FleetChange, FleetFeed } from '../fleet/feed.ts'
import type { Fleet, FleetDevice } from '../fleet/fleet.ts'
import type { History } from '../fleet/history.ts'
import { LabelChange, type Labels } from '../fleet/labels.ts'
import { EventStreams, saying } from '../http/event-stream.ts'
import type { Handler } from '../http/http-server.ts'
import { answer, bodyOf, noSuchPath, understood } from '../http/json.ts'
import type { Call } from '../identity/callers.ts'
import { readHistory } from './history.ts'

export const devicesPath = '/v1/devices'
export const fleetPath = '/v1/fleet'

/** Of a device's commands and log, in its whole description. */
const shownCommands = 10
const shownLines = 10
const longestWaitS = 60

const Expiry = z.object({ expiresS: z.number().positive().max(86_400).default(30) })
const LogQuery = z.object({
  level: z.enum(logLevels).default('warn'),
  lines: z.coerce.number().int().min(0).max(500).default(100),
})
const WaitQuery = z.object({ waitS: z.coerce.number().min(0).max(longestWaitS).default(0) })

export interface FleetHttpOptions {
  readonly fleet: Fleet
  readonly labels: Labels
  readonly commands: Commands
  readonly logs: DeviceLogs
  readonly history: History
  readonly feed: FleetFeed
  /** What `GET /v1/fleet` tells beside the devices. */
  readonly describe: () => object
}

export interface FleetHttp extends Handler {
  /** Ends the streams of those who watch. */
  close(): void
}

/** `/v1/fleet…` and `/v1/devices…`: how the fleet fares, labels, commands, logs; as JSON and as streams of what changes. */
export function createFleetHttp(options: FleetHttpOptions): FleetHttp {
  const { fleet, labels, commands, logs, history, feed, describe } = options
  const streams = new EventStreams()

  function existing(id: string): FleetDevice {
    const device = fleet.device(id)
    if (device) return device
    throw new BrimError('DEVICE_UNKNOWN', `this bridge knows no device "${id}"`, { hint: '"brim device list" names them' })
  }

  const show = (id: string) => ({
    ...existing(id),
    jobsUnderWay: fleet.jobsOf(id),
    commands: commands.of(id, shownCommands),
    log: logs.of(id, 'warn', shownLines),
  })

  /** What is now, then what changes; of one device, or of all. */
  function watch(only: string | undefined, response: ServerResponse): void {
    if (only !== undefined) existing(only)
    const first = only === undefined ? fleet.devices().map(({ id }) => id) : [only]
    /** What was not said yet: of each device each kind of change once, however often it came. */
    let due = new Map(first.map((device) => [`device ${device}`, { type: 'device', device }]))
    const next = () => {
      const events = [...due.values()].map(eventOf)
      due = new Map()
      return saying(events)
    }
    let wake = () => {}
    const stop = feed.subscribe((device, type) => {
      if (type === 'log' || (only !== undefined && device !== only)) return
      due.set(`${type} ${device}`, { type, device })
      wake()
    })
    wake = streams.open(response, next, stop).wake
  }

  function eventOf({ type, device }: { type: FleetChange | 'device' | string; device: string }) {
    const command = type === 'commands' ? { command: commands.of(device, 1)[0] } : {}
    return { type, device, at: nowIso(), now: fleet.device(device) ?? null, ...command }
  }

  function log(id: string, url: URL, request: IncomingMessage, response: ServerResponse): void {
    existing(id)
    const { level, lines } = understood(LogQuery, Object.fromEntries(url.searchParams))
    const past = logs.of(id, level, lines)
    if (request.headers.accept !== 'text/event-stream') return void answer(response, 200, { lines: past })
    let told = logs.of(id, 'debug', 1).at(-1)?.n ?? 0
    let isFirst = true
    const next = () => {
      const fresh = isFirst ? past : logs.of(id, level, Number.POSITIVE_INFINITY, told)
      isFirst = false
      told = Math.max(told, fresh.at(-1)?.n ?? 0)
      return saying(fresh)
    }
    let wake = () => {}
    const stop = feed.subscribe((device, what) => {
      if (device === id && what === 'log') wake()
    })
    wake = streams.open(response, next, stop).wake
  }

  async function label(id: string, request: IncomingMessage, call: Call): Promise<unknown> {
    existing(id)
    const change = understood(LabelChange, await bodyOf(request))
    call.describe('device.label', id, change)
    const now = labels.change(id, change)
    if (!now) throw invalid('a device has at most 32 labels')
    feed.publish(id, 'labels')
    return { id, labels: now }
  }

  async function give(id: string, request: IncomingMessage, call: Call): Promise<CommandRecord> {
    existing(id)
    const body = await bodyOf(request)
    const wish = understood(CommandAction, body)
    const { expiresS } = understood(Expiry, body)
    const record = commands.send(id, wish, call.actor.who, expiresS)
    call.describe(`device.${wish.type}`, id, { command: record.id, ...wish, expiresAt: record.expiresAt })
    return record
  }

  /** Answers once the command has ended, or `waitS` are over. */
  async function command(id: string, name: string, url: URL, response: ServerResponse): Promise<unknown> {
    const { waitS } = understood(WaitQuery, Object.fromEntries(url.searchParams))
    const find = () => {
      const found = commands.find(name)
      if (found?.device === id) return found
      throw invalid(`device "${id}" was given no command "${name}"`)
    }
    if (find().state !== 'SENT' || waitS === 0) return find()
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitS * 1_000)
      const stop = feed.subscribe((device) => {
        if (device === id && find().state !== 'SENT') resolve()
      })
      const end = () => {
        clearTimeout(timer)
        stop()
        resolve()
      }
      waiting.add(end)
      response.once('close', () => {
        end()
        waiting.delete(end)
      })
    })
    return find()
  }
  /** Who waits for commands to end. */
  const waiting = new Set<() => void>()

  async function route(request: IncomingMessage, response: ServerResponse, call: Call): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const [, , side, id, what, name, ...rest] = url.pathname.split('/')
    const { method } = request
    const ok = (body: unknown) => answer(response, 200, body)
    if (side === 'fleet') {
      if (method === 'GET' && id === undefined)
        return ok({ ...describe(), devices: fleet.devices().filter(({ state }) => state !== null) })
      if (method === 'GET' && id === 'events' && what === undefined) return watch(undefined, response)
      throw noSuchPath
    }
    if (rest.length > 0) throw noSuchPath
    if (id === undefined && method === 'GET') return ok({ devices: fleet.devices() })
    if (id === undefined) throw noSuchPath
    switch (`${method} ${[what, name === undefined ? undefined : '*'].filter(Boolean).join(' ')}`) {
      case 'GET ':
        return ok(show(id))
      case 'GET events':
        return watch(id, response)
      case 'GET log':
        return log(id, url, request, response)
      case 'GET telemetry':
        existing(id)
        return ok(readHistory(history, id, url.searchParams))
      case 'POST labels':
        return ok(await label(id, request, call))
      case 'POST commands':
        return answer(response, 202, await give(id, request, call))
      case 'GET commands':
        existing(id)
        return ok({ commands: commands.of(id, 100) })
      case 'GET commands *':
        return ok(await command(id, name!, url, response))
      default:
        throw noSuchPath
    }
  }

  return {
    handle: route,
    needs: ({ method }) => (method === 'GET' ? 'read' : 'operate'),
    close() {
      streams.endAll()
      for (const end of [...waiting]) end()
    },
  }
}

const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: 'brim device --help has examples' })
