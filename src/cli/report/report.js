// Draws the report from the block of JSON. Every text of the data becomes a text node, never markup.
'use strict';
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const tasks = data.tasks || [];
  const main = d3.select('#main');

  // --- texts
  function digits(x) {
    return Number(x.toPrecision(3)).toString();
  }
  function seconds(s) {
    if (!(s > 0)) return '-';
    for (const [unit, size] of [['s', 1], ['ms', 1e-3], ['us', 1e-6]]) if (s >= size) return digits(s / size) + ' ' + unit;
    return digits(s / 1e-9) + ' ns';
  }
  function rate(r, unit) {
    return r > 0 ? digits(r / 1e9) + ' ' + unit : '-';
  }
  function percent(x) {
    return digits(100 * x) + '%';
  }
  function day(unix) {
    return unix > 0 ? new Date(1000 * unix).toISOString().replace('T', ' ').slice(0, 16) + ' UTC' : '-';
  }
  function nodesText(nodes) {
    const first = (nodes || [])[0] || [];
    if (first.length === 0) return '';
    const more = nodes.length > 1 ? ', ' + (nodes.length - 1) + ' more' : '';
    return (first[0].name || '(no name)') + ': ' + first.map(n => n.type).join('+') + more;
  }
  const taskName = t => '#' + t.number + ' ' + t.workload;

  // --- forms of convolutions: trials are of all forms, all else is of the built one
  const hasForms = t => (t.forms || []).length > 1;
  const someForms = tasks.some(hasForms);
  // A measured program of a task, from its array.
  function trialOf(t, task, r) {
    return {task, record: r[0], time: r[1], seconds: r[2], predicted: r[3], form: hasForms(t) ? t.forms[r[4]].form : ''};
  }
  const formText = r => r.form ? r.form + ', ' : '';
  const dotClass = r => r.form ? 'dot ' + r.form : 'dot';
  function formKey(parent, trials) {
    const names = Array.from(new Set(trials.map(r => r.form))).filter(name => name).sort();
    if (names.length === 0) return;
    parent.append('p').attr('class', 'faint').text('Forms: ').selectAll('span').data(names).enter().append('span').attr('class', name => 'key ' + name).text(name => name);
  }

  // --- blocks
  function section(id, title, text) {
    const s = main.append('section').attr('id', id);
    s.append('h2').text(title);
    if (text) s.append('p').attr('class', 'faint').text(text);
    d3.select('#sections').append('a').attr('href', '#' + id).text(title);
    return s;
  }
  function table(parent, heads, rows) {
    const t = parent.append('div').attr('class', 'wide').append('table');
    t.append('thead').append('tr').selectAll('th').data(heads).enter().append('th').attr('scope', 'col')
      .attr('class', h => h.number ? 'n' : h.short ? 's' : null).text(h => h.name);
    t.append('tbody').selectAll('tr').data(rows).enter().append('tr').selectAll('td')
      .data(r => r.map((text, i) => ({text, number: heads[i].number, short: heads[i].short}))).enter().append('td')
      .attr('class', c => c.number ? 'n' : c.short ? 's' : null).text(c => c.text);
    return t;
  }
  function svg(parent, title, width, height) {
    const s = parent.append('svg').attr('viewBox', '0 0 ' + width + ' ' + height).attr('role', 'img').attr('class', 'plot');
    s.append('title').text(title);
    s.attr('aria-label', title);
    return s;
  }
  const W = 720, H = 380, L = 64, R = 16, T = 14, B = 42;
  function logTicks(scale) {
    return scale.ticks().filter(t => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
  }
  // A frame with two axes; `log` as in scales.
  function frame(parent, title, x, y, names, formats) {
    const s = svg(parent, title, W, H);
    const axis = (make, scale, format) => {
      const a = make(scale).tickFormat(format).tickSizeOuter(0);
      return scale.base ? a.tickValues(logTicks(scale).length > 1 ? logTicks(scale) : scale.ticks(4)) : a.ticks(6);
    };
    const grid = s.append('g').attr('class', 'grid').attr('transform', 'translate(' + L + ',0)');
    grid.call(axis(d3.axisLeft, y, '').tickSize(-(W - L - R))).select('.domain').remove();
    s.append('g').attr('transform', 'translate(0,' + (H - B) + ')').call(axis(d3.axisBottom, x, formats[0]));
    s.append('g').attr('transform', 'translate(' + L + ',0)').call(axis(d3.axisLeft, y, formats[1]));
    s.append('text').attr('x', (L + W - R) / 2).attr('y', H - 6).attr('text-anchor', 'middle').text(names[0]);
    s.append('text').attr('transform', 'translate(13 ' + (T + H - B) / 2 + ') rotate(-90)').attr('text-anchor', 'middle').text(names[1]);
    return s;
  }
  function range(values, log) {
    const good = values.filter(v => isFinite(v) && (!log || v > 0));
    if (good.length === 0) return [1, 10];
    let low = d3.min(good), high = d3.max(good);
    if (log) return [low / 1.3, high * 1.3];
    if (low === high) high = low + 1;
    return [low, high];
  }
  const across = [L, W - R], up = [H - B, T];

  // --- summary
  function head() {
    const h = d3.select('#head');
    h.append('h1').text(data.title);
    h.append('p').attr('class', 'faint').text(data.subtitle || '');
  }
  function card(parent, value, text) {
    const c = parent.append('div').attr('class', 'card');
    c.append('b').text(value);
    c.append('span').text(text);
  }
  const weighted = (t, field) => t[field] > 0 ? t.weight * t[field] : NaN;
  function total(field) {
    return d3.sum(tasks, t => weighted(t, field) || 0);
  }
  // The sums over the tasks that have both times.
  function gain(field) {
    const both = tasks.filter(t => t[field] > 0 && t.seconds > 0);
    return {count: both.length, before: d3.sum(both, t => weighted(t, field)), after: d3.sum(both, t => weighted(t, 'seconds'))};
  }
  function gainCard(parent, field, name) {
    const g = gain(field);
    if (g.count === 0) return;
    card(parent, digits(g.before / g.after) + 'x', 'faster than ' + name + ': ' + seconds(g.before) + ' to ' + seconds(g.after) +
      (g.count < tasks.length ? ', over ' + g.count + ' of ' + tasks.length + ' tasks' : ''));
  }
  function summary() {
    const s = section('summary', 'Summary');
    const cards = s.append('div').attr('class', 'cards');
    const tuned = tasks.filter(t => t.tuned).length;
    card(cards, tuned + ' of ' + tasks.length, 'tasks tuned');
    if (data.kind !== 'store' && total('seconds') > 0)
      card(cards, seconds(total('seconds')), 'the kernels of one run, summed');
    gainCard(cards, 'default_seconds', 'default schedules' + (someForms ? ' of the built forms' : ''));
    gainCard(cards, 'plain_seconds', 'unscheduled loops');
    const trials = d3.sum(tasks, t => (t.trials || []).length);
    if (trials > 0) card(cards, trials, 'programs measured' + (someForms ? ', of all forms of convolutions' : ''));
    for (const note of data.notes || []) s.append('p').text(note);
  }

  // --- where the time of a run goes
  function bars(parent, title, rows) {
    const height = 18, width = W, left = 330;
    const s = svg(parent, title, width, rows.length * height + 10);
    const x = d3.scaleLinear([0, d3.max(rows, r => r.value) || 1], [0, width - left - 110]);
    const g = s.selectAll('g').data(rows).enter().append('g').attr('transform', (r, i) => 'translate(0,' + (i * height + 4) + ')');
    g.append('text').attr('x', left - 6).attr('y', 12).attr('text-anchor', 'end').text(r => r.name.length > 52 ? r.name.slice(0, 51) + '\u2026' : r.name)
      .append('title').text(r => r.name);
    g.append('rect').attr('class', 'bar').attr('x', left).attr('width', r => x(r.value)).attr('height', height - 4);
    g.append('text').attr('x', r => left + x(r.value) + 5).attr('y', 12).text(r => r.text);
  }
  const kMostBars = 16;
  function split() {
    const known = tasks.filter(t => t.seconds > 0).sort((a, b) => weighted(b, 'seconds') - weighted(a, 'seconds'));
    if (known.length === 0 || data.kind === 'store') return;
    const s = section('split', 'Where the time of a run goes');
    const sum = total('seconds');
    const rows = known.slice(0, kMostBars).map(t => ({name: taskName(t), value: weighted(t, 'seconds'),
      text: percent(weighted(t, 'seconds') / sum) + (t.weight > 1 ? ', ' + t.weight + ' times' : '')}));
    const rest = d3.sum(known.slice(kMostBars), t => weighted(t, 'seconds'));
    if (rest > 0) rows.push({name: (known.length - kMostBars) + ' more tasks', value: rest, text: percent(rest / sum)});
    bars(s, 'Time of a run by task', rows);
  }
  function phases() {
    const runs = (data.runs || []).filter(r => r.phases);
    const sums = {};
    for (const r of runs) for (const name of Object.keys(r.phases)) sums[name] = (sums[name] || 0) + r.phases[name];
    const rows = Object.keys(sums).filter(n => sums[n] > 0).map(n => ({name: n, value: sums[n], text: digits(sums[n]) + ' s'}));
    if (rows.length === 0) return;
    const s = section('phases', 'Where the time of tuning went', 'Wall time by phase, of ' + runs.length + (runs.length === 1 ? ' run.' : ' runs.'));
    bars(s, 'Wall time of tuning by phase', rows);
  }

  // --- roofline
  function roofline() {
    const series = data.kind === 'pair' ? pairTasks() : tasks;
    const points = series.filter(t => t.flops > 0 && t.bytes > 0 && t.seconds > 0);
    if (points.length === 0) return;
    const roofs = data.roofs || {compute: [], memory: []};
    const s = section('roofline', 'Roofline', 'Arithmetic of each kernel over the bytes of its parameters, each counted once. ' +
      (roofs.source || 'The rates of the machine are not known.') + ' Select a point to see its task.');
    const fastest = d3.max(roofs.compute, c => c.rate) || 0;
    const x = d3.scaleLog(range(points.map(t => t.flops / t.bytes).concat(fastest > 0 ? roofs.memory.map(m => fastest / m.rate) : []), true), across);
    const y = d3.scaleLog(range(points.map(t => t.flops / t.seconds).concat(fastest > 0 ? [fastest] : []), true), up);
    const p = frame(s, 'Roofline of all kernels', x, y, ['operations per byte', 'GFLOP/s'], [d => digits(d), d => digits(d / 1e9)]);
    const clip = r => Math.max(y.domain()[0], r);
    for (const c of roofs.compute) {
      p.append('line').attr('class', 'roof').attr('x1', L).attr('x2', W - R).attr('y1', y(clip(c.rate))).attr('y2', y(clip(c.rate)));
      p.append('text').attr('x', W - R).attr('y', y(clip(c.rate)) - 3).attr('text-anchor', 'end').text(c.name + ' ' + rate(c.rate, 'GFLOP/s'));
    }
    roofs.memory.forEach((m, i) => {
      const at = v => Math.min(fastest > 0 ? fastest : Infinity, v * m.rate);
      const line = d3.range(65).map(k => x.domain()[0] * Math.pow(x.domain()[1] / x.domain()[0], k / 64))
        .filter(v => at(v) >= y.domain()[0]).map(v => [x(v), y(Math.min(at(v), y.domain()[1]))]);
      if (line.length === 0) return;
      p.append('path').attr('class', 'roof').attr('d', d3.line()(line));
      p.append('text').attr('x', line[0][0] + 4).attr('y', line[0][1] - 4 - 10 * (i % 2)).text(m.name + ' ' + rate(m.rate, 'GB/s'));
    });
    const biggest = d3.max(points, t => weighted(t, 'seconds'));
    dots(p, points, t => x(t.flops / t.bytes), t => y(t.flops / t.seconds), t => 3 + 8 * Math.sqrt(weighted(t, 'seconds') / biggest),
      t => taskName(t) + ': ' + rate(t.flops / t.seconds, 'GFLOP/s') + ', ' + seconds(t.seconds) + (t.bound && t.bound.by ? ', bound by ' + t.bound.by : ''));
  }
  function dots(p, points, x, y, r, text) {
    const d = p.append('g').selectAll('circle').data(points).enter().append('circle')
      .attr('class', t => 'dot' + (t.side === 'b' ? ' b' : '') + (t.tuned === false ? ' untuned' : ''))
      .attr('cx', x).attr('cy', y).attr('r', r).attr('tabindex', 0).attr('role', 'link').attr('aria-label', text)
      .on('click', t => show(t.number, true))
      .on('keydown', t => { if (d3.event.key === 'Enter') show(t.number, true); });
    d.append('title').text(text);
  }

  // --- tuning curves
  const kPause = 120;  // seconds: longer breaks between measured programs are left out
  function allTrials() {
    const all = [];
    tasks.forEach((t, task) => (t.trials || []).forEach(r => all.push(trialOf(t, task, r))));
    all.sort((a, b) => a.record - b.record);
    let wall = 0;
    all.forEach((r, i) => {
      const step = i > 0 ? r.time - all[i - 1].time : 0;
      if (step > 0 && step <= kPause) wall += step;
      r.wall = wall;
    });
    return all;
  }
  // Of a model: its time by the best so far, from where every task with a trial has one.
  function totalCurve(trials) {
    const best = new Map(), measured = new Set(trials.filter(r => r.seconds > 0).map(r => r.task)), points = [];
    trials.forEach((r, i) => {
      if (r.seconds > 0 && !(best.get(r.task) <= r.seconds)) best.set(r.task, r.seconds);
      if (best.size < measured.size || measured.size === 0) return;
      points.push({trial: i + 1, wall: r.wall, value: d3.sum(Array.from(best), e => tasks[e[0]].weight * e[1])});
    });
    return points;
  }
  function curve(parent, title, points, field, name) {
    const x = d3.scaleLinear(range([0].concat(points.map(p => p[field]))), across);
    const y = d3.scaleLinear(range(points.map(p => p.value)), up).nice();
    const p = frame(parent, title, x, y, [name, 'best so far'], [d => digits(d), seconds]);
    p.append('path').attr('class', 'curve').attr('d', d3.line().curve(d3.curveStepAfter).x(q => x(q[field])).y(q => y(q.value))(points));
    return {p, x, y};
  }
  function curves() {
    const trials = allTrials();
    const points = data.kind === 'store' ? [] : totalCurve(trials);
    if (points.length < 2) return;
    const s = section('curves', 'Tuning', 'The time of the kernels of one run by the best programs so far, from where every task has one. ' +
      'Wall time leaves breaks of more than ' + kPause + ' s between programs out. The curve of a task is in its details.');
    const two = s.append('div').attr('class', 'two');
    curve(two.append('div'), 'Best total by measured programs', points, 'trial', 'measured programs');
    curve(two.append('div'), 'Best total by wall time', points, 'wall', 'seconds of measuring');
  }

  // --- predicted against measured
  function scatter(parent, title, trials, open) {
    const known = trials.filter(r => r.seconds > 0 && r.predicted > 0);
    if (known.length === 0) return false;
    const span = range(known.map(r => r.seconds).concat(known.map(r => r.predicted)), true);
    const x = d3.scaleLog(span, across), y = d3.scaleLog(span, up);
    const p = frame(parent, title, x, y, ['measured', 'predicted'], [seconds, seconds]);
    p.append('line').attr('class', 'same').attr('x1', x(span[0])).attr('x2', x(span[1])).attr('y1', y(span[0])).attr('y2', y(span[1]));
    p.append('g').selectAll('circle').data(known).enter().append('circle').attr('class', dotClass).attr('r', 2.5)
      .attr('cx', r => x(r.seconds)).attr('cy', r => y(r.predicted))
      .append('title').text(r => (open ? taskName(tasks[r.task]) + ', ' : '') + formText(r) + 'record ' + r.record + ': measured ' + seconds(r.seconds) + ', predicted ' + seconds(r.predicted));
    formKey(parent, known);
    return true;
  }
  function predictions() {
    const trials = allTrials();
    if (!trials.some(r => r.seconds > 0 && r.predicted > 0)) return;
    const s = section('predictions', 'Predicted against measured', data.predictions || '');
    scatter(s, 'Predicted against measured time of candidates', trials, true);
  }

  // --- failures
  function failures() {
    const sums = new Map();
    const add = (kind, reason, count, example) => {
      const key = kind + '\n' + reason, e = sums.get(key) || {kind, reason, count: 0, example: ''};
      e.count += count;
      e.example = e.example || example;
      sums.set(key, e);
    };
    for (const t of tasks) {
      for (const f of t.records || []) if (f.status !== 'ok') add('measured', f.status, f.count, f.example);
      for (const r of (t.recorded || {}).rejects || []) add('rejected', r.reason, r.count, r.example);
    }
    const s = section('failures', 'Failures by reason');
    const rows = Array.from(sums.values()).sort((a, b) => b.count - a.count);
    const proposed = d3.sum(tasks, t => (t.recorded || {}).proposed || 0);
    if (proposed > 0) {
      const duplicate = d3.sum(tasks, t => t.recorded.duplicate || 0), rejected = d3.sum(tasks, t => t.recorded.rejected || 0);
      s.append('p').text(proposed + ' candidates were proposed: ' + duplicate + ' were seen before, ' + rejected + ' were rejected before they ran.' + (someForms ? ' Of a convolution with several forms, those of the built form are counted.' : ''));
    }
    if (rows.length === 0) {
      s.append('p').text('No candidate failed.');
      return;
    }
    bars(s, 'Failures by reason', rows.slice(0, kMostBars).map(r => ({name: r.kind + ': ' + r.reason, value: r.count, text: String(r.count)})));
    table(s, [{name: 'when'}, {name: 'reason'}, {name: 'count', number: true}, {name: 'for example'}], rows.map(r => [r.kind, r.reason, r.count, r.example]));
  }

  // --- GPUs
  const kGpuFacts = ['registers', 'spill_bytes', 'stack_bytes', 'shared_bytes'];
  const kMostTimelines = 12, kShownSteps = 8;
  const slowest = t => (t.launch_models || []).slice().sort((a, b) => launchSeconds(b) - launchSeconds(a))[0];
  function launchSeconds(l) {
    return Math.max(l.copy_seconds, l.arithmetic_seconds);
  }
  function gpuFacts() {
    if (!tasks.some(t => (t.facts || {}).registers > 0 || (t.launch_models || []).length > 0)) return;
    const s = section('gpu', 'GPU facts', 'What the compiler and the device\'s counters say of each kernel, and what the analytical model of the target says of its slowest launch.');
    const numbers = ['registers', 'spilled', 'stack', 'shared', 'blocks resident', 'occupancy', 'bank conflicts', 'tensor cores', 'device memory'];
    const heads = [{name: 'task', short: true}].concat(numbers.map(name => ({name, number: true}))).concat([{name: 'matrix instruction', short: true}]);
    const share = x => x >= 0 && x !== null && x !== undefined ? percent(x) : '-';
    const t = table(s, heads, tasks.map(t => {
      const f = t.facts || {}, c = t.counters || {}, l = slowest(t);
      const occupancy = c.occupancy >= 0 && c.occupancy !== null && c.occupancy !== undefined ? percent(c.occupancy) : l ? percent(l.occupancy) + ' (model)' : '-';
      return ['#' + t.number].concat(kGpuFacts.map(n => n in f ? digits(f[n]) : '-'))
        .concat([l ? digits(l.blocks_per_sm) : '-', occupancy, l ? percent(l.bank_conflicts) : '-', share(c.tensor_share)])
        .concat([c.dram_bytes >= 0 && c.dram_bytes !== null ? digits(c.dram_bytes / 1e6) + ' MB' : '-', t.matrix_instruction === undefined ? '-' : t.matrix_instruction || 'none']);
    }));
    t.attr('id', 'gpu-table');
    const drawn = tasks.filter(t => slowest(t) && launchSeconds(slowest(t)) > 0)
      .sort((a, b) => b.weight * launchSeconds(slowest(b)) - a.weight * launchSeconds(slowest(a))).slice(0, kMostTimelines);
    if (drawn.length === 0) return;
    s.append('p').text('Timelines of the warps of a block, by the same model: copies to shared memory and the work on them, step by step. ' +
      'A copy begins when one of the stages is free; work begins when its copy has ended. The first ' + kShownSteps + ' steps are drawn.');
    for (const t of drawn) timeline(s, t, slowest(t));
  }
  // Of a block's warps, by role: its copies and its work.
  function timeline(parent, t, l) {
    const steps = Math.max(l.steps, 1), shown = Math.min(steps, kShownSteps), stages = Math.max(l.stages, 1);
    const passes = steps * Math.max(l.rounds, 1), copy = l.copy_seconds / passes, work = l.arithmetic_seconds / passes;
    const copies = [], works = [];
    for (let i = 0; i < shown; ++i) {
      const free = i >= stages ? works[i - stages].end : 0, begin = Math.max(i > 0 ? copies[i - 1].end : 0, free);
      copies.push({begin, end: begin + copy});
      const start = Math.max(i > 0 ? works[i - 1].end : 0, copies[i].end);
      works.push({begin: start, end: start + work});
    }
    const lanes = [];
    for (const r of l.roles || []) {
      const warps = 'warps ' + r.first_warp + ' to ' + (r.first_warp + r.warps - 1) + (r.registers > 0 ? ', ' + r.registers + ' registers' : '');
      if (r.work !== 'products') lanes.push({name: warps + ': copies', bars: copies, kind: 'bar b'});
      if (r.work !== 'copies') lanes.push({name: warps + ': work', bars: works, kind: 'bar'});
    }
    const height = 18, left = 250, end = works[shown - 1].end || 1;
    const s = svg(parent, 'Timeline of ' + taskName(t) + ': ' + shown + ' of ' + steps + ' steps, ' + stages + ' stages', W, lanes.length * height + 34);
    s.classed('timeline', true);
    const x = d3.scaleLinear([0, end], [left, W - R]);
    s.append('text').attr('x', 0).attr('y', 11).text(taskName(t) + ', ' + l.threads + ' threads, ' + stages + (stages === 1 ? ' stage, ' : ' stages, ') + shown + ' of ' + steps + (steps === 1 ? ' step' : ' steps'));
    lanes.forEach((lane, i) => {
      const y = 16 + i * height;
      s.append('text').attr('x', left - 6).attr('y', y + 12).attr('text-anchor', 'end').text(lane.name);
      s.append('g').selectAll('rect').data(lane.bars).enter().append('rect').attr('class', lane.kind).attr('x', b => x(b.begin)).attr('y', y + 2)
        .attr('width', b => Math.max(x(b.end) - x(b.begin) - 1, 0.5)).attr('height', height - 4)
        .append('title').text((b, n) => 'step ' + n + ': ' + seconds(b.end - b.begin));
    });
    s.append('g').attr('transform', 'translate(0,' + (18 + lanes.length * height) + ')')
      .call(d3.axisBottom(x).ticks(5).tickSize(3).tickFormat(v => v > 0 ? seconds(v) : '0'));
  }

  // --- the tasks
  const columns = [
    {name: 'task', short: true, value: t => t.number}, {name: 'workload', value: t => t.workload}, {name: 'nodes of the model', value: t => nodesText(t.nodes)},
    {name: 'weight', number: true, value: t => t.weight}, {name: 'time', number: true, value: t => t.seconds || 0, text: t => seconds(t.seconds)},
    {name: 'share', number: true, value: t => weighted(t, 'seconds') || 0, text: t => t.seconds > 0 && total('seconds') > 0 ? percent(weighted(t, 'seconds') / total('seconds')) : '-'},
    {name: 'GFLOP/s', number: true, value: t => t.flops > 0 && t.seconds > 0 ? t.flops / t.seconds : 0, text: t => t.flops > 0 && t.seconds > 0 ? digits(t.flops / t.seconds / 1e9) : '-'},
    {name: 'over default', number: true, value: t => t.default_seconds > 0 && t.seconds > 0 ? t.default_seconds / t.seconds : 0, text: t => t.default_seconds > 0 && t.seconds > 0 ? digits(t.default_seconds / t.seconds) + 'x' : '-'},
    {name: 'bound by', value: t => t.bound ? t.bound.by + (t.bound.share > 0 ? ' ' + percent(t.bound.share) : '') : ''},
    {name: 'trials', number: true, value: t => (t.trials || []).length}, {name: 'schedule', short: true, value: t => t.schedule || ''}];
  if (data.kind === 'store') columns.splice(2, 2, {name: 'target', value: t => t.target}, {name: 'threads', number: true, value: t => t.threads});
  let body = null;
  function taskTable() {
    if (tasks.length === 0) return;
    const s = section('tasks', 'Tasks', 'Select a task for its schedule, program and code. Arrow keys move between tasks, Enter opens, Escape closes; headings sort.');
    const t = s.append('div').attr('class', 'wide').append('table').attr('id', 'task-table');
    t.append('thead').append('tr').selectAll('th').data(columns).enter().append('th').attr('scope', 'col').attr('class', c => c.number ? 'n' : c.short ? 's' : null)
      .append('button').text(c => c.name).on('click', c => fill(c));
    body = t.append('tbody');
    fill(null);
  }
  let order = {column: null, up: true};
  function fill(column) {
    if (column) order = {column, up: order.column === column ? !order.up : !column.number};
    const rows = tasks.slice();
    if (order.column) rows.sort((a, b) => (order.up ? 1 : -1) * d3.ascending(order.column.value(a), order.column.value(b)));
    body.selectAll('tr').remove();
    const tr = body.selectAll('tr').data(rows).enter().append('tr').attr('class', 'task').attr('id', t => 'task-' + t.number);
    tr.selectAll('td').data(t => columns.map((c, i) => ({t, c, i}))).enter().append('td').attr('class', d => d.c.number ? 'n' : d.c.short ? 's' : null)
      .each(function (d) {
        const text = String(d.c.text ? d.c.text(d.t) : d.c.value(d.t));
        const cell = d3.select(this);
        if (d.i > 0) return cell.text(text);
        cell.append('button').attr('aria-expanded', 'false').text('#' + text).on('click', () => show(d.t.number, false)).on('keydown', () => move(this.parentNode));
      });
  }
  function move(row) {
    const key = d3.event.key;
    if (key === 'Escape') return close(row);
    if (key !== 'ArrowDown' && key !== 'ArrowUp') return;
    const rows = Array.from(body.node().querySelectorAll('tr.task'));
    const next = rows[rows.indexOf(row) + (key === 'ArrowDown' ? 1 : -1)];
    if (!next) return;
    next.querySelector('button').focus();
    d3.event.preventDefault();
  }
  function close(row) {
    if (!row.classList.contains('open')) return;
    row.classList.remove('open');
    row.querySelector('button').setAttribute('aria-expanded', 'false');
    row.nextSibling.remove();
  }
  // Opens or closes the details of a task; `stay`: only opens, and moves there.
  function show(number, stay) {
    const row = document.getElementById('task-' + number);
    if (!row) return;
    const open = row.classList.contains('open');
    if (open && !stay) return close(row);
    if (!open) {
      row.classList.add('open');
      row.querySelector('button').setAttribute('aria-expanded', 'true');
      const tr = document.createElement('tr');
      row.parentNode.insertBefore(tr, row.nextSibling);
      details(d3.select(tr).append('td').attr('colspan', columns.length).append('div').attr('class', 'details'), tasks.find(t => t.number === number));
    }
    if (stay) {
      row.scrollIntoView();
      row.querySelector('button').focus();
    }
  }
  function text(parent, title, content, note) {
    if (!content) return;
    const d = parent.append('div');
    d.append('h3').text(title);
    if (note) d.append('p').attr('class', 'faint').text(note);
    d.append('pre').attr('tabindex', 0).text(content);
  }
  function bound(parent, b) {
    if (!b || !b.by) return;
    parent.append('h3').text('What bounds it: ' + b.by);
    const limits = (b.limits || []).map(l => l.part + ' ' + seconds(l.seconds)).join(', ');
    parent.append('p').text('At the least, by ' + (b.measured_rates ? 'rates measured here' : 'nominal rates') + ': ' + limits + '.' +
      (b.share > 0 ? ' The kernel reaches ' + percent(b.share) + ' of the longest.' : ''));
    parent.append('ul').selectAll('li').data(b.advice || []).enter().append('li').text(a => a);
  }
  function details(d, t) {
    d.append('p').text('key ' + t.key + (t.schedule ? ', schedule: ' + t.schedule : '') + (t.reason ? ' (' + t.reason + ')' : '') + (t.note ? '. ' + t.note : ''));
    const nodes = [];
    (t.nodes || []).forEach((group, kernel) => group.forEach(n => nodes.push([kernel, n.type, n.name])));
    if (nodes.length > 0) {
      d.append('h3').text('Nodes of the model');
      table(d, [{name: 'kernel'}, {name: 'operator'}, {name: 'name'}], nodes);
    }
    bound(d, t.bound);
    const facts = Object.keys(t.facts || {});
    if (facts.length > 0) {
      d.append('h3').text('The compiler about its code');
      d.append('p').text(facts.map(f => f.replace(/_/g, ' ') + ' ' + digits(t.facts[f])).join(', '));
    }
    for (const launch of t.launches || []) d.append('p').text(launch);
    if (hasForms(t)) {
      const built = t.forms.find(f => f.built);
      d.append('h3').text('Forms');
      d.append('p').text('Measured programs are of all forms. Bounds, schedule, program and code are of the built one' + (built ? ', ' + built.form : '') + '.');
      table(d, [{name: 'form'}, {name: 'built'}, {name: 'trials', number: true}, {name: 'time', number: true}, {name: 'key'}],
        t.forms.map(f => [f.form, f.built ? 'yes' : 'no', f.trials, seconds(f.best_seconds), f.key]));
    }
    const trials = (t.trials || []).map((r, i) => Object.assign(trialOf(t, tasks.indexOf(t), r), {trial: i + 1}));
    const two = d.append('div').attr('class', 'two');
    taskCurve(two, trials);
    const box = two.append('div');
    box.append('h3').text('Predicted against measured');
    if (!scatter(box, 'Predicted against measured time of the task', trials, false)) box.remove();
    if ((t.tried || []).length > 0) {
      d.append('h3').text('The fastest other programs' + (hasForms(t) ? ' of the built form' : ''));
      table(d, [{name: 'record', number: true}, {name: 'time', number: true}, {name: 'over the chosen', number: true}, {name: 'steps in which they differ'}],
        t.tried.map(o => [o.record, seconds(o.seconds), digits(o.ratio) + 'x', (o.otherwise || []).join('; ')]));
    }
    const tree = d.append('div').attr('class', 'two');
    text(tree, 'Loop tree', t.loops);
    text(tree, 'Schedule', (t.steps || []).length > 0 ? t.steps.map(s => (s.module ? s.module + ': ' : '') + s.step).join('\n') : t.schedule_text);
    const code = d.append('div').attr('class', 'two');
    text(code, 'Program (loop IR)', t.program);
    text(code, 'Generated code', t.code, t.code_note);
    text(d, 'Plain loops', t.nest);
  }
  function taskCurve(parent, trials) {
    let best = 0;
    const points = [];
    for (const r of trials) {
      if (!(r.seconds > 0)) continue;
      best = best > 0 ? Math.min(best, r.seconds) : r.seconds;
      points.push({trial: r.trial, value: best});
    }
    if (points.length === 0) return;
    const box = parent.append('div');
    box.append('h3').text('Tuning');
    const x = d3.scaleLinear([0, trials.length + 1], across);
    const y = d3.scaleLog(range(trials.map(r => r.seconds), true), up);
    const p = frame(box, 'Tuning of the task', x, y, ['measured programs', 'time'], [digits, seconds]);
    p.append('g').selectAll('circle').data(trials.filter(r => r.seconds > 0)).enter().append('circle').attr('class', dotClass).attr('r', 2.2)
      .attr('cx', r => x(r.trial)).attr('cy', r => y(r.seconds)).append('title').text(r => formText(r) + 'record ' + r.record + ': ' + seconds(r.seconds));
    p.append('path').attr('class', 'curve').attr('d', d3.line().curve(d3.curveStepAfter).x(q => x(q.trial)).y(q => y(q.value))(points));
    formKey(box, trials);
  }

  // --- two libraries
  function pairTasks() {
    const one = (t, side) => Object.assign({}, t, t[side], {side});
    return [].concat(data.pairs.map(t => one(t, 'a')), data.pairs.map(t => one(t, 'b')));
  }
  function pair() {
    const known = data.pairs.filter(t => t.a && t.b && t.a.seconds > 0 && t.b.seconds > 0);
    const sum = side => d3.sum(known, t => t.weight * t[side].seconds);
    const s = section('summary', 'Summary');
    const cards = s.append('div').attr('class', 'cards');
    card(cards, known.length + ' of ' + data.pairs.length, 'tasks with a time in both');
    if (known.length > 0) {
      const ratio = sum('b') / sum('a');
      card(cards, seconds(sum('a')) + ' / ' + seconds(sum('b')), 'kernels of one run in a and in b, summed over these');
      card(cards, percent(Math.abs(1 - ratio)), ratio <= 1 ? 'less in b' : 'more in b');
      card(cards, known.filter(t => t.b.seconds < t.a.seconds).length, 'tasks faster in b');
    }
    for (const note of data.notes || []) s.append('p').text(note);
    const c = section('tasks', 'Tasks', 'Times are those of tuning: tcc bench A.so B.so measures both libraries in turns.');
    const heads = [{name: 'workload'}, {name: 'nodes of the model'}, {name: 'weight', number: true}, {name: 'a', number: true}, {name: 'b', number: true}, {name: 'b over a', number: true}];
    const rows = data.pairs.slice().sort((p, q) => change(q) - change(p));
    const t = table(c, heads, rows.map(p => [p.workload, nodesText(p.nodes), p.weight, seconds((p.a || {}).seconds), seconds((p.b || {}).seconds), ratioText(p)]));
    t.selectAll('tbody tr').data(rows).select('td:last-child').classed('better', p => ratio(p) < 0.99).classed('worse', p => ratio(p) > 1.01);
    if (known.length > 0) {
      const both = section('ratios', 'Time in b against time in a');
      const span = range(known.map(p => p.a.seconds).concat(known.map(p => p.b.seconds)), true);
      const x = d3.scaleLog(span, across), y = d3.scaleLog(span, up);
      const f = frame(both, 'Time of each task in b against a', x, y, ['a', 'b'], [seconds, seconds]);
      f.append('line').attr('class', 'same').attr('x1', x(span[0])).attr('x2', x(span[1])).attr('y1', y(span[0])).attr('y2', y(span[1]));
      f.append('g').selectAll('circle').data(known).enter().append('circle').attr('class', 'dot').attr('r', 4).attr('tabindex', 0)
        .attr('cx', p => x(p.a.seconds)).attr('cy', p => y(p.b.seconds)).append('title').text(p => p.workload + ': ' + ratioText(p));
    }
    const ratioOf = p => p;
    for (const p of rows.filter(ratioOf)) {
      const d = c.append('details');
      d.append('summary').text(p.workload + ' (' + ratioText(p) + ')');
      const two = d.append('div').attr('class', 'two');
      text(two, 'Schedule in a', (p.a || {}).schedule_text);
      text(two, 'Schedule in b', (p.b || {}).schedule_text);
    }
  }
  function ratio(p) {
    return p.a && p.b && p.a.seconds > 0 && p.b.seconds > 0 ? p.b.seconds / p.a.seconds : NaN;
  }
  function ratioText(p) {
    if (!p.a) return 'only in b';
    if (!p.b) return 'only in a';
    return isFinite(ratio(p)) ? digits(ratio(p)) + 'x' : '-';
  }
  function change(p) {
    return isFinite(ratio(p)) ? p.weight * (p.a.seconds - p.b.seconds) : -Infinity;
  }

  // --- where it is from
  function runs() {
    if (!(data.runs || []).length) return;
    const s = section('runs', 'Runs of tuning');
    table(s, [{name: 'began'}, {name: 'took', number: true}, {name: 'programs', number: true}, {name: 'tasks', number: true}, {name: 'model after it', number: true}, {name: 'tcc'}, {name: 'machine'}],
      data.runs.map(r => [day(r.began), digits(r.seconds) + ' s', r.trials, r.tasks, seconds(r.model_seconds), r.tool_version, r.platform]));
  }
  function provenance() {
    const s = section('provenance', 'Machine and provenance');
    table(s, [{name: 'what'}, {name: 'value'}], data.provenance || []);
  }

  head();
  if (data.kind === 'pair') {
    pair();
    roofline();
  } else {
    summary();
    taskTable();
    split();
    roofline();
    curves();
    predictions();
    failures();
    gpuFacts();
    phases();
    runs();
  }
  provenance();
  document.body.setAttribute('data-ms', performance.now().toFixed(1));
  document.body.setAttribute('data-ready', String(document.querySelectorAll('svg.plot').length));
})();
