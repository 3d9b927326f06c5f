import type { Host } from '../host.ts'
import type { Source } from '../sample.ts'

const devfreq = '/sys/class/devfreq'
/** Names of the GPU: Xavier, TX2, Orin and its successor; "gpu" on a Nano, 17000000.gpu on Orin with JetPack 7, gpu-gpc-0 on Thor. */
const gpuName = /gv11b|gp10b|ga10b|gb10b|\bgpu\b/
/** Used kHz of the memory clock. The path depends on the release, and most are readable by root only. */
const activities = [
  '/sys/kernel/debug/cactmon/mc_all',
  '/sys/kernel/actmon_avg_activity/mc_all',
  '/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity',
]

/** Load and clocks of a Jetson's GPU and memory controller, as far as they are readable. */
export function jetsonGpu(host: Host): Source {
  /** Names differ by board and release, so the nodes are found by their content. */
  async function find(): Promise<string | undefined> {
    const nodes = await host.list(devfreq)
    const names = await Promise.all(nodes.map((node) => host.text(`${devfreq}/${node}/device/of_node/name`)))
    const isGpu = (_: string, index: number) => gpuName.test(`${nodes[index]} ${names[index] ?? ''}`)
    return nodes.filter(isGpu)[0]
  }
  return {
    name: 'gpu',
    async read() {
      const [node, emcHz, bwmgrHz, ...levels] = await Promise.all([
        find(),
        host.number('/sys/kernel/debug/bpmp/debug/clk/emc/rate'),
        host.number(`${devfreq}/bwmgr/cur_freq`),
        ...activities.map((path) => host.number(path)),
      ])
      const [perMille, hz] = node === undefined ? [] : await readNode(node)
      const emc = emcHz ?? bwmgrHz
      const activity = levels.find((level) => level !== undefined)
      return {
        load: {
          gpuPercent: perMille === undefined ? null : Math.min(100, perMille / 10),
          gpuMHz: megahertz(hz),
          emcPercent: activity === undefined || !emc ? null : Math.min(100, Math.round((activity * 1e6) / emc) / 10),
          emcMHz: megahertz(emc),
        },
      }
    },
  }

  function readNode(node: string) {
    return Promise.all([host.number(`${devfreq}/${node}/device/load`), host.number(`${devfreq}/${node}/cur_freq`)])
  }
}

const megahertz = (hz: number | undefined) => (hz === undefined ? null : Math.round(hz / 1e6))

/** The first card whose driver reports its load, such as amdgpu. */
export function linuxGpu(host: Host): Source {
  const folder = '/sys/class/drm'
  return {
    name: 'gpu',
    async read() {
      const cards = (await host.list(folder)).filter((name) => /^card\d+$/.test(name))
      const busy = await Promise.all(cards.map((card) => host.number(`${folder}/${card}/device/gpu_busy_percent`)))
      return { load: { gpuPercent: busy.find((percent) => percent !== undefined) ?? null } }
    },
  }
}
