import { createServer } from 'node:http'
import { describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { captureIo } from '../../support/captured-io.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'

/** Responses with words, fields and sections that this release does not know. */
const at = '2031-05-04T09:30:00.125Z'
const command = {
  id: '9d4f0b6c21e87a35',
  device: 'jetson-01',
  wish: { type: 'reboot', delayS: 5 },
  actor: 'key:ada/1',
  at,
  expiresAt: at,
  state: 'DEFERRED',
  endedAt: null,
  reason: null,
}
const device = {
  id: 'jetson-01',
  state: 'hibernating',
  birth: 1,
  lastSeen: at,
  seenS: 3,
  agent: '9.0.0',
  modelId: null,
  labels: { site: 'lab' },
  jobs: 0,
  problems: [{ kind: 'dust', detail: 'fan' }],
  identity: { group: 'default', status: 'suspended', enrolledAt: at, hardware: null, clone: null },
  telemetry: { at, birth: 1, ageS: 2, link: null, speed: { prefillTokensPerS: 900, draftStepMs: 4 }, radar: { rangeM: 12 } },
  colour: 'green',
}
const line = { n: 1, heardAt: at, at, birth: 1, level: 'audit', component: 'link', message: 'ready', fields: {}, dropped: 0 }
const job = {
  id: '3f9a1c07-42',
  kind: 'hat.generate',
  state: 'PAUSED',
  attempt: 1,
  device: 'jetson-01',
  boundTo: null,
  priority: 5,
  key: null,
  submittedAt: at,
  deadlineAt: at,
  finishedAt: null,
  retryOf: null,
  failures: {},
  error: null,
}
const quota = { requestsPerMinute: null, jobsPerDay: null }
const responses: Readonly<Record<string, unknown>> = {
  '/v1/devices': { devices: [device] },
  '/v1/devices/jetson-01': { ...device, jobsUnderWay: [job], commands: [command], log: [line] },
  '/v1/devices/jetson-01/log': { lines: [line] },
  '/v1/fleet': {
    ...{ bridge: 'bridge-1', version: '9.0.0', modelId: 'm', uptimeS: 1, sessions: 0, kvBytes: 0, kvBudgetBytes: 1 },
    ...{ jobs: { queued: 0, underWay: 1, dead: 0 }, devices: [device] },
  },
  '/v1/jobs': { jobs: [job] },
  '/v1/jobs/3f9a1c07-42': { ...job, input: {}, result: null, devices: ['jetson-01'], visibleToBridge: true },
  '/v1/jobs/3f9a1c07-42/events': { events: [] },
  '/v1/jobs/3f9a1c07-42/cancel': { canceled: false, state: 'ARCHIVED' },
  '/v1/whoami': {
    ...{ id: '1', name: 'ada', role: 'auditor', bridge: 'bridge-1', fleet: 'default' },
    quota: { ...quota, requestsLeft: null, jobsLeft: null },
  },
  '/v1/admin/keys': { keys: [{ id: '1', name: 'ada', role: 'auditor', createdAt: at, revokedAt: null, ...quota }] },
  '/v1/admin/audit': {
    audit: [{ at, actor: 'anyone', from: '::1', action: 'GET /\u009b31m', subject: '', outcome: 'delayed', detail: {} }],
  },
}

/** As every release replies, and earlier ones for `/v1/fleet/summary`. */
const noSuchPath = { error: { code: 'REQUEST_INVALID', message: 'no such path' } }

const newerBridge = createServer((request, response) => {
  const path = new URL(request.url ?? '', 'http://bridge').pathname
  if (path === '/v1/fleet/events')
    response.end(`data: ${JSON.stringify({ type: 'moved', device: 'jetson-01', at, now: device })}\n\n`)
  else response.writeHead(path in responses ? 200 : 404).end(JSON.stringify(responses[path] ?? noSuchPath))
})
const server = shared(() => onLoopback(newerBridge))

const brim = (...words: string[]) => runBrim([...words, '--bridge-url', `http://127.0.0.1:${server.port}`])

describe('with a newer bridge', () => {
  it.each([
    [['device', 'list'], /jetson-01 +suspended +3s/],
    [
      ['device', 'show', 'jetson-01'],
      /state +hibernating[\s\S]*\nradar\n {2}rangeM +12\n[\s\S]*PAUSED[\s\S]*reboot {2}DEFERRED[\s\S]*AUDIT link/,
    ],
    [['device', 'logs', 'jetson-01'], /AUDIT link/],
    [['fleet', 'status'], /! 1 dust: jetson-01 \(fan\)[\s\S]*jetson-01 suspend…/],
    [['job', 'list'], /PAUSED/],
    [['job', 'show', '3f9a1c07-42'], /PAUSED/],
    [['job', 'cancel', '3f9a1c07-42'], /ended: ARCHIVED/],
    [['whoami'], /^ada, auditor/],
    [['bridge', 'key', 'list'], /ada +auditor/],
    [['bridge', 'audit'], /GET \/\\u009b31m .*delayed/],
  ])('%j prints words that this release does not know', async (words, text) => {
    expect(await brim(...words)).toMatchObject({ code: 0, err: '', out: expect.stringMatching(text) })
  })

  it.each([
    ['device', 'list'],
    ['fleet', 'status'],
  ])('brim %s %s --json prints unknown fields too', async (...words) => {
    const { out } = await brim(...words, '--label', 'site=lab', '--json')
    expect((JSON.parse(out) as { devices: unknown[] }).devices).toEqual([device])
    expect((JSON.parse((await brim(...words, '--label', 'site=moon', '--json')).out) as { devices: unknown[] }).devices).toEqual(
      [],
    )
  })

  it('brim device watch prints events of an unknown type', async () => {
    const stop = new AbortController()
    const { io, out } = captureIo({ signal: stop.signal })
    const url = `http://127.0.0.1:${server.port}`
    const watching = run(['device', 'watch', '--bridge-url', url], io)
    await expect.poll(out).toMatch(/jetson-01 +moved +hibernating/)
    stop.abort()
    expect(await watching).toBe(0)
  })
})
