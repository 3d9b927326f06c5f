import type { Random } from '../../../core/kit/base/random.ts'
import type { Measurements } from '../../../core/policy/telemetry/dead-bands.ts'

const gib = 2 ** 30
const rails = { VDD_IN: 5.1, VDD_CPU_GPU_CV: 1.2, VDD_SOC: 1.4 } as const
const zones = { 'cpu-thermal': 46, 'gpu-thermal': 44, 'soc0-thermal': 45, 'soc1-thermal': 46, 'tj-thermal': 47 } as const

/**
 * What an Orin Nano with a small model and a link to a bridge reports, as its figures wander: those that move on a real board
 * move from one sample to the next. Without `v`, `at` and `birth`.
 */
export function sampleOf(bridge: string, uptimeS: number, random: Random): Measurements {
  const near = (value: number, share = 0.1) => Math.round(value * (1 + share * (random.next() - 0.5)) * 100) / 100
  const whole = (value: number, share = 0.1) => Math.round(near(value, share))
  const railsW = Object.fromEntries(Object.entries(rails).map(([name, watts]) => [name, near(watts)]))
  const zonesC = Object.fromEntries(Object.entries(zones).map(([name, celsius]) => [name, near(celsius, 0.02)]))
  return {
    link: { upBytesPerS: whole(900_000), downBytesPerS: whole(2_500_000), rttMs: near(24), bridge },
    speed: { prefillTokensPerS: 410, draftStepMs: 6.2 },
    device: {
      kind: 'jetson',
      model: 'NVIDIA Jetson Orin Nano Developer Kit',
      module: 'Orin Nano 8GB',
      soc: 'tegra234',
      l4t: '36.4.3',
      jetpack: '6.2',
      os: 'Ubuntu 22.04.5 LTS',
      kernel: '5.15.148-tegra',
      powerMode: '15W',
      cores: 6,
      uptimeS,
      agent: '0.3.0',
      modelId: 'a'.repeat(64),
    },
    load: { cpuPercent: whole(18, 0.6), gpuPercent: whole(4, 1), emcPercent: 2, cpuMHz: 1_510, gpuMHz: 306, emcMHz: 2_133 },
    memory: {
      totalBytes: 7.4 * gib,
      freeBytes: whole(3.1 * gib, 0.02),
      swapTotalBytes: 3.7 * gib,
      swapFreeBytes: 3.7 * gib,
      gpuUsedBytes: whole(0.4 * gib, 0.02),
    },
    temperatures: { hottestC: Math.max(...Object.values(zonesC)), zonesC },
    throttling: { isThrottled: false, causes: [] },
    power: { railsW, totalW: railsW.VDD_IN ?? null, scope: 'module', jPerToken: 0.41 },
    battery: null,
    fan: { dutyPercent: 30, rpm: whole(2_400, 0.02) },
    disk: { totalBytes: 116 * gib, freeBytes: 71 * gib },
    network: {
      eth0: { kind: 'ethernet', isUp: true, linkMbitPerS: 1_000, rxBytesPerS: whole(640, 1), txBytesPerS: whole(410, 1) },
    },
    errors: [],
    bundles: { llm: { name: 'demo', modelId: 'a'.repeat(64) }, slm: { name: 'demo-slm', modelId: 'b'.repeat(64) } },
    jobs: { waiting: 0, running: 0 },
    spool: { waiting: 0, bytes: 0, dropped: { full: 0, old: 0, unstored: 0 } },
    answers: { underWay: 0, decodeTokensPerS: { 'demo-slm': 38.2 } },
  }
}
