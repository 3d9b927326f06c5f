import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { release } from '../../../core/kit/base/version.ts'
import { sha256 } from '../../../scripts/packaging/stage.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { pythonWith } from '../../support/python-packages.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const folder = fileURLToPath(new URL('../../../docs/examples/container/', import.meta.url))
const containerfile = join(folder, 'Containerfile')

interface Instruction {
  readonly name: string
  readonly rest: string
}
interface Stage {
  readonly from: string
  readonly name: string
  readonly steps: readonly Instruction[]
}

/** The stages of a Containerfile. Comments are left out, and lines that go on are joined. */
function stagesOf(text: string): Stage[] {
  const lines = text
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
  const stages: (Stage & { steps: Instruction[] })[] = []
  for (const line of lines) {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line.trim()) ?? []
    const [, from, as] = /^(\S+) AS (\S+)$/.exec(rest) ?? []
    if (name === 'FROM') stages.push({ from: from!, name: as!, steps: [] })
    else stages.at(-1)?.steps.push({ name, rest })
  }
  return stages
}

const stages = stagesOf(readFileSync(containerfile, 'utf8'))
const stage = (name: string) => stages.find((each) => each.name === name)!
const stepsNamed = (of: string, name: string) => stage(of).steps.filter((step) => step.name === name)
const wordsOf = ({ rest }: Instruction): string[] => JSON.parse(rest.replace(/^.*?CMD (?=\[)/, ''))
const compose = parse(readFileSync(join(folder, 'compose.yaml'), 'utf8')) as {
  services: Record<
    string,
    {
      image?: string
      build?: { target: string; dockerfile: string; context: string }
      command?: string[]
      volumes: string[]
      ports?: (string | number)[]
    }
  >
  volumes: Record<string, unknown>
}
const readYaml = (name: string) => parse(readFileSync(join(folder, name), 'utf8'))

const dir = shared(tempDir)

describe('the Containerfile', () => {
  const python = pythonWith('hadolint')
  it.skipIf(python === undefined)('passes hadolint', () => {
    const { status, stdout } = spawnSync(join(dirname(python ?? ''), 'hadolint'), [containerfile], { encoding: 'utf8' })
    expect(stdout).toBe('')
    expect(status).toBe(0)
  })

  it('makes an agent and a bridge of one installation, without root, each with a health check', () => {
    expect(stages.map(({ name, from }) => `${name} from ${from}`)).toEqual([
      'unpacked from debian:12-slim',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: as it is written there
      'installed from ${BASE}',
      'agent from installed',
      'bridge from installed',
    ])
    expect(stepsNamed('installed', 'USER').at(-1)?.rest).toBe('10001:10001')
    for (const side of ['agent', 'bridge']) {
      expect(stepsNamed(side, 'USER')).toEqual([])
      expect(stepsNamed(side, 'HEALTHCHECK')).toHaveLength(1)
    }
    expect(stepsNamed('unpacked', 'ARG').map(({ rest }) => rest)).toContain(`VERSION=${release}`)
  })

  it('starts commands with options that there are', async () => {
    const commands = [
      ...['agent', 'bridge'].map((side) => wordsOf(stepsNamed(side, 'CMD')[0]!)),
      compose.services.bridge!.command!,
    ]
    for (const [noun = '', verb = '', ...options] of commands) {
      const { io, out } = captureIo()
      await brim([noun, verb, '--help'], io)
      for (const option of options.filter((word) => word.startsWith('--')))
        expect(out()).toMatch(new RegExp(`^ +(-\\w, )?${option}\\b`, 'm'))
    }
  })

  describe('unpacks', () => {
    /** The step, with the paths of the image below a temporary folder. */
    function unpack(root: string, arch: string) {
      const [step] = stepsNamed('unpacked', 'RUN')
      const command = step!.rest.replaceAll('/opt/brim', join(root, 'opt/brim'))
      const env = { PATH: process.env.PATH, TARGETARCH: arch, VERSION: release }
      return spawnSync('sh', ['-c', command], { cwd: join(root, 'archives'), env, encoding: 'utf8' })
    }
    function archivesIn(root: string) {
      const archives = join(root, 'archives')
      mkdirSync(archives, { recursive: true })
      for (const platform of ['linux-x64', 'linux-arm64']) {
        const title = `brim-${release}-${platform}`
        mkdirSync(join(root, title, 'bin'), { recursive: true })
        writeFileSync(join(root, title, 'bin/brim'), platform)
        execFileSync('tar', ['-C', root, '-czf', join(archives, `${title}.tar.gz`), title])
        const hash = sha256(join(archives, `${title}.tar.gz`))
        writeFileSync(join(archives, `${title}.tar.gz.sha256`), `${hash}  ${title}.tar.gz\n`)
      }
      return archives
    }

    it.each([
      ['amd64', 'linux-x64'],
      ['arm64', 'linux-arm64'],
    ])('the archive of %s', (arch, platform) => {
      const root = join(dir.path, arch)
      archivesIn(root)
      expect(unpack(root, arch)).toMatchObject({ status: 0 })
      expect(readFileSync(join(root, 'opt/brim/bin/brim'), 'utf8')).toBe(platform)
    })

    it('nothing of a damaged archive, or for another processor', () => {
      const root = join(dir.path, 'damaged')
      writeFileSync(join(archivesIn(root), `brim-${release}-linux-x64.tar.gz`), 'damaged')
      for (const arch of ['amd64', 'riscv64']) expect(unpack(root, arch).status).not.toBe(0)
      expect(existsSync(join(root, 'opt/brim/bin'))).toBe(false)
    })
  })

  const canAddUsers = process.getuid?.() === 0 && spawnSync('useradd', ['--help']).error === undefined
  it.skipIf(isMissing('useradd, as root', canAddUsers))('adds its user', () => {
    const root = join(dir.path, 'users')
    for (const path of ['etc/default', 'var/lib']) mkdirSync(join(root, path), { recursive: true })
    for (const file of ['passwd', 'group', 'shadow', 'gshadow']) writeFileSync(join(root, 'etc', file), '')
    const command = stepsNamed('installed', 'RUN')[0]!.rest.replace(/\b(groupadd|useradd) /g, `$1 --prefix ${root} `)
    const { status, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
    expect(status, stderr).toBe(0)
    expect(readFileSync(join(root, 'etc/passwd'), 'utf8')).toMatch(
      /^brim:x:10001:10001:.*:\/var\/lib\/brim:\/usr\/sbin\/nologin$/m,
    )
  })

  describe('knows whether it is healthy:', () => {
    /** The exit code of the check, with this Node and another port. */
    async function check(side: 'agent' | 'bridge', url: string): Promise<number> {
      const [, ...args] = wordsOf(stepsNamed(side, 'HEALTHCHECK')[0]!)
      const { port } = new URL(url)
      const child = spawn(
        process.execPath,
        args.map((word) => word.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`)),
        { stdio: 'ignore' },
      )
      const [code] = await once(child, 'exit')
      return code as number
    }

    it('an agent that can answer, and one whose bridge is away', async () => {
      await using world = await startAgentWorld({ adapter: false })
      await expect.poll(async () => (await fetch(`${world.agent.apiUrl}/ready`)).status).toBe(200)
      expect(await check('agent', world.agent.apiUrl)).toBe(0)
      const lonely = await world.startAgent({ id: 'lonely', bridges: ['mqtt://127.0.0.1:1'] })
      expect(await check('agent', lonely.apiUrl)).toBe(1)
    })

    it('a bridge with TLS or without, and one that has ended', async () => {
      const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
      for (const [which, path] of Object.entries(tls)) copyFileSync(fixture(`first.${which}.pem`), path)
      chmodSync(tls.key, 0o600)
      for (const [name, settings] of Object.entries({ plain: {}, tls: { tls } })) {
        const upstream = { url: 'http://127.0.0.1:1', model: 'm' }
        const bridge = await startTestBridge({ upstream, stateDir: join(dir.path, name), ...settings })
        expect(await check('bridge', bridge.httpUrl), name).toBe(0)
        await bridge.close()
        expect(await check('bridge', bridge.httpUrl), name).toBe(1)
      }
    })
  })
})

describe('the compose file', () => {
  it('builds the bridge of the Containerfile, and takes released images by their versions', () => {
    const { bridge, ...others } = compose.services
    expect(stage(bridge!.build!.target).from).toBe('installed')
    expect(resolve(folder, bridge!.build!.context, bridge!.build!.dockerfile)).toBe(containerfile)
    for (const { image } of Object.values(others)) expect(image).toMatch(/^[\w/]+:v?\d+\.\d+\.\d+$/)
  })

  it('mounts files that are there or that its first lines make, and volumes that it declares', () => {
    const head = readFileSync(join(folder, 'compose.yaml'), 'utf8').split('\nname:')[0]!
    for (const { volumes } of Object.values(compose.services))
      for (const source of volumes.map((mount) => mount.split(':')[0]!)) {
        if (!source.startsWith('.')) expect(Object.keys(compose.volumes)).toContain(source)
        else if (source.startsWith('./keys'))
          expect(head).toContain(source === './keys' ? 'mkdir -p keys' : source.slice('./'.length))
        else expect(existsSync(join(folder, source)), source).toBe(true)
      }
  })

  it('lets Prometheus read the bridge, and Grafana Prometheus', () => {
    const [job] = readYaml('prometheus.yml').scrape_configs
    expect(job).toMatchObject({ scheme: 'https', static_configs: [{ targets: ['bridge:7070'] }] })
    expect(readFileSync(join(folder, '../../grafana-dashboard.json'), 'utf8')).toContain(`job=\\"${job.job_name}\\"`)
    const mounted = compose.services.prometheus!.volumes.map((mount) => mount.split(':')[1])
    expect(mounted).toEqual(expect.arrayContaining([job.authorization.credentials_file, job.tls_config.ca_file]))
    expect(readYaml('grafana/datasource.yaml').datasources[0].url).toBe('http://prometheus:9090')
    const shown = compose.services.grafana!.volumes.find((mount) => mount.includes('grafana-dashboard.json'))!.split(':')[1]!
    expect(dirname(shown)).toBe(readYaml('grafana/dashboards.yaml').providers[0].options.path)
  })
})

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url))
