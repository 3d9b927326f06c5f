import type { Clock } from '../../../core/kit/base/clock.ts'
import type { Host } from '../host.ts'
import { jetpackOf, moduleOf, parseCoreVersion, parsePowerMode, parseTegraRelease, socOf } from '../parse/jetson-release.ts'
import { occasionally } from '../program.ts'
import type { SamplePart, Source } from '../sample.ts'

type Identity = NonNullable<SamplePart['device']>

const tree = '/proc/device-tree'
const plain = (text: string | undefined) => text?.replaceAll('\0', ' ').trim() || null

/** Values that do not change while the agent runs are read once. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined
  return () => {
    value ??= read()
    return value
  }
}

/** Identity of any Linux machine. */
export function linuxIdentity(host: Host): Source {
  const constant = once(async (): Promise<Identity> => {
    const [board, vendor, product, release, kernel] = await Promise.all([
      host.text(`${tree}/model`),
      host.text('/sys/class/dmi/id/sys_vendor'),
      host.text('/sys/class/dmi/id/product_name'),
      host.text('/etc/os-release'),
      host.text('/proc/sys/kernel/osrelease'),
    ])
    const made = [vendor, product].map(plain).filter(Boolean).join(' ')
    const os = /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(release ?? '')?.[1]
    return { model: plain(board) ?? plain(made), os: plain(os), kernel: plain(kernel) }
  })
  return {
    name: 'identity',
    async read() {
      const [identity, uptime] = await Promise.all([constant(), host.text('/proc/uptime')])
      const seconds = Number.parseFloat(uptime ?? '')
      return { device: { ...identity, uptimeS: Number.isFinite(seconds) ? Math.round(seconds) : null } }
    },
  }
}

/** The platform profile of the firmware, or the cpufreq governor. */
export function linuxPowerMode(host: Host): Source {
  return {
    name: 'power mode',
    async read() {
      const profile = await host.text('/sys/firmware/acpi/platform_profile')
      const mode = profile ?? (await host.text('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor'))
      return { device: { powerMode: plain(mode) } }
    },
  }
}

/** Interval of nvpmodel: power modes change rarely. */
const powerModeEveryMs = 5 * 60_000
const programTimeoutMs = 4_000

/** Module, releases and power mode of a Jetson. */
export function jetsonIdentity(host: Host, clock: Clock): Source {
  const timeoutMs = programTimeoutMs
  const powerMode = occasionally(host, clock, { program: 'nvpmodel', args: ['-q'], timeoutMs, everyMs: powerModeEveryMs })
  const query = ['--status', 'nvidia-l4t-core']
  const corePackage = { program: 'dpkg-query', args: query, timeoutMs, everyMs: Number.POSITIVE_INFINITY }
  const coreVersion = occasionally(host, clock, corePackage)
  const constant = once(async () => {
    const [compatible = '', ids = '', dts = '', model = '', release] = await Promise.all([
      ...['compatible', 'nvidia,boardids', 'nvidia,dtsfilename', 'model'].map((name) => host.text(`${tree}/${name}`)),
      host.text('/etc/nv_tegra_release'),
    ])
    const identity: Identity = { module: moduleOf(`${compatible} ${ids} ${dts}`, model) ?? null, soc: socOf(compatible) ?? null }
    return { identity, release }
  })
  return {
    name: 'jetson',
    async read(signal, warn) {
      const { identity, release } = await constant()
      const [mode, version] = await Promise.all([powerMode(signal), release === undefined ? coreVersion(signal) : undefined])
      const l4t = release === undefined ? parseCoreVersion(version ?? '') : parseTegraRelease(release)
      if (release !== undefined && l4t === undefined) warn('nv_tegra_release')
      const modeName = mode === undefined ? undefined : parsePowerMode(mode)
      if (mode !== undefined && modeName === undefined) warn('nvpmodel')
      const jetpack = l4t === undefined ? undefined : jetpackOf(l4t)
      return { device: { ...identity, l4t: l4t ?? null, jetpack: jetpack ?? null, powerMode: modeName ?? null } }
    },
  }
}
