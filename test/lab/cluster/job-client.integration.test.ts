import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { JobClient } from '../../../lab/cluster/job-client.ts'

let jobs: JobClient
const server = createServer((request, response) => {
  const status = Number(request.url?.split('/').at(-1))
  response.writeHead(status).end(JSON.stringify({ state: 'RUNNING', attempt: 1, result: null }))
})
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  jobs = new JobClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, new AbortController().signal)
})
afterAll(() => server.close())

it('takes a job for unknown where the bridge responds with 404, and for no other status', async () => {
  expect(await jobs.show('200')).toMatchObject({ state: 'RUNNING' })
  expect(await jobs.show('404')).toBeUndefined()
  for (const status of ['401', '500'])
    await expect(jobs.show(status)).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining(status) })
  await expect(jobs.show('503')).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
})
