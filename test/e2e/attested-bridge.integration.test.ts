import { chmodSync, copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import type { AgentSettings } from '../../agent/config.ts'
import { enrol } from '../../agent/identity/enrolment.ts'
import type { Attester } from '../../cloud-bridge/attestation/attester.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { invitationText } from '../../core/wire/protocol/identity.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { ask, health, linked, sourcesOf } from '../support/asking-agent.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { scriptedUpstream, streamed } from '../support/scripted-upstream.ts'
import { shared } from '../support/shared.ts'
import { snpMachine, testPolicy } from '../support/snp-machine.ts'
import { tempDir } from '../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url))
const machine = snpMachine()
/** In the place of the kernel of a confidential virtual machine. */
const attester: Attester = { evidenceOf: async (data) => machine.evidence(data) }

const dir = shared(tempDir)
let [bundle, slm, policy] = ['', '', '']
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path)
  slm = await buildSlmBundle(dir.path)
  policy = join(dir.path, 'policy.yaml')
  writeFileSync(policy, JSON.stringify(testPolicy()))
})

async function bridgeWith(id: string, made: Attester | undefined): Promise<TestBridge> {
  const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  for (const which of ['cert', 'key'] as const) copyFileSync(fixture(`first.${which}`), tls[which])
  chmodSync(tls.key, 0o600)
  const settings = { id, bundle, tls, auth: true, stateDir: join(dir.path, id) }
  return startTestBridge(settings, undefined, { attester: made })
}
const plain = shared(() => bridgeWith('plain', undefined))
const confidential = shared(() => bridgeWith('confidential', attester))

const agents: Agent[] = []
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.close()))
})

/** An agent that requires evidence, enrolled at these bridges. */
async function agentAt(id: string, bridges: readonly TestBridge[], more: Partial<AgentSettings> = {}): Promise<Agent> {
  const stateDir = join(dir.path, id)
  for (const bridge of bridges) {
    const store = openIdentityStore(join(dir.path, bridge === plain ? 'plain' : 'confidential'))
    const { token, secret } = store.createToken('operator:test', { group: 'default', uses: 1, expiresS: 60, approve: true })
    store.close()
    const invitation = invitationText({ url: bridge.httpUrl, id: token.id, secret, pin: bridge.pin! })
    await enrol({ stateDir, device: id, token: invitation, replace: false })
  }
  const settings = { id, bundle, stateDir, apiPort: 0, threads: 1, logLevel: 'silent', privacy: { attestation: policy } } as const
  const agent = await startAgent({ ...settings, ...more }, undefined, undefined, { attestationRoots: machine.roots })
  agents.push(agent)
  return agent
}

describe('an agent that requires attestation', () => {
  it('answers by a bridge with evidence, and not by one without', async () => {
    const agent = await agentAt('both', [plain, confidential])
    await linked(agent)
    const answer = await ask(agent, {})
    expect(answer).toMatchObject({ status: 200 })
    expect(sourcesOf(answer)).toEqual(['hat'])
    expect(await health(agent)).toMatchObject({ bridge: 'connected', bridgeId: 'confidential' })
  })

  it('fails a private answer by name where no bridge has evidence: no text goes to a server', async () => {
    const server = await scriptedUpstream(streamed('never'))
    const agent = await agentAt('alone', [plain], { server: { at: server.url, model: 'cloud' }, patienceS: 0.1 })
    await expect.poll(() => health(agent)).toMatchObject({ broker: 'connected', bridge: 'refused' })
    const refused = await ask(agent, { mode: 'private' })
    expect(refused).toMatchObject({
      status: 503,
      error: { code: 'ATTESTATION_REFUSED', message: expect.stringContaining('no evidence') },
    })
    expect(await health(agent)).toMatchObject({ status: 'degraded', reasons: [{ code: 'ATTESTATION_REFUSED' }] })
    expect(server.requests).toEqual([])
    await server[Symbol.asyncDispose]()
  })

  it('lets the small model of the device answer where the request allows it', async () => {
    const agent = await agentAt('fallback', [plain], { slms: [slm], patienceS: 0.1 })
    await expect.poll(() => health(agent)).toMatchObject({ bridge: 'refused' })
    const answer = await ask(agent, { fallback: 'slm' })
    expect(sourcesOf(answer)).toEqual(['slm'])
    expect(answer.report.fallback).toMatchObject({ code: 'ATTESTATION_REFUSED' })
  })

  it('does not start with a file that it cannot use, or with the bridge as a server of text', async () => {
    const wrong = join(dir.path, 'wrong.yaml')
    writeFileSync(wrong, 'measurements: [abc]\ntcb: {}\n')
    const settings = { id: 'x', bundle, stateDir: join(dir.path, 'x'), apiPort: 0, logLevel: 'silent' } as const
    const start = (more: Partial<AgentSettings>) => startAgent({ ...settings, ...more })
    await expect(start({ privacy: { attestation: wrong } })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(/wrong\.yaml.*measurements\.0/),
    })
    await expect(start({ privacy: { attestation: policy }, server: { at: 'bridge' } })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining('--require-attestation'),
    })
  })
})
